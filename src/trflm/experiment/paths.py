"""Where the paths of a recipe lead.

A path in a recipe is looked for beside the recipe first, so that a recipe and its text can be moved together, and then from the
working directory, where the text for a recipe that others wrote usually lies. A path in `--set` is taken as it is typed. A run
keeps the paths as they were found, and the directory they start from, so that it can be resumed from anywhere.
"""

import dataclasses
import glob
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from trflm.errors import InputError
from trflm.kinds import PATH

T = TypeVar("T")
MOST_PATH = 4096  # letters: no file has a longer name, and the time that a pattern takes grows with its square


def relocate(config: T, find: Callable[[str], str], keep: Iterable[str] = (), name: str = "") -> T:
    """The configuration with each path that it holds as `find` gives it, but for the dotted keys in `keep`."""
    keep = set(keep)
    hints = get_type_hints(type(config), include_extras=True)
    changed = {}
    for field in dataclasses.fields(config):  # pyright: ignore[reportArgumentType]
        key = f"{name}.{field.name}" if name else field.name
        if key not in keep:
            changed[field.name] = _relocated(getattr(config, field.name), hints[field.name], find, keep, key)
    return dataclasses.replace(config, **changed)  # pyright: ignore[reportArgumentType]


def _relocated(value: Any, hint: Any, find: Callable[[str], str], keep: set[str], key: str) -> Any:
    if dataclasses.is_dataclass(value):
        return relocate(value, find, keep, key)
    if get_origin(hint) in (Union, UnionType):
        single, several = get_args(hint)
        hint = several if isinstance(value, tuple) else single
    if isinstance(value, tuple):
        inner = (*get_args(hint), None)[0]
        return tuple(_relocated(item, inner, find, keep, key) for item in value)
    if value and get_origin(hint) is Annotated and PATH in get_args(hint):
        if "\0" in value:
            raise InputError(f"{key} = {value!r}: no path can hold a zero byte")
        return find(value)
    return value


def paths_of(config: Any) -> list[str]:
    """All paths that a configuration holds."""
    found: list[str] = []
    relocate(config, lambda path: found.append(path) or path)
    return found


def first_found(*directories: Path) -> Callable[[str], str]:
    """A path relative to the first of these directories in which it exists, or something that matches it as a pattern does;
    as it is if there is none."""

    def find(path: str) -> str:
        return next((str(at / path) for at in directories if os.path.exists(at / path) or any(matching(at / path))), path)

    return find


def matching(pattern: Path | str) -> Iterator[str]:
    """The files with such a name; none if it is no pattern (*, ?, [])."""
    if len(str(pattern)) <= MOST_PATH and glob.has_magic(str(pattern)):
        yield from glob.iglob(str(pattern), recursive=True)


def keys_of(overrides: Iterable[str]) -> set[str]:
    """The dotted keys that `section.key=value` overrides set."""
    return {override.partition("=")[0].strip() for override in overrides}
