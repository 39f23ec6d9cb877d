"""Every key of a recipe, with its type, its default and what it means, read from the dataclasses themselves.

A key's meaning is the comment at the end of its line in the source; a section's is the docstring of its class.
"""

import ast
import dataclasses
import inspect
import io
import json
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from trflm.experiment.recipe import Recipe
from trflm.kinds import KINDS, PATH
from trflm.ranges import range_of

TYPES = {int: "whole number", float: "number", bool: "true or false", str: "string"}


@dataclass(frozen=True)
class Key:
    """One key of a section."""

    name: str
    type: str
    default: Any
    meaning: str


def keys_of(section: type) -> list[Key]:
    """The keys of a section, but for `kind`."""
    hints, meanings = get_type_hints(section, include_extras=True), meanings_of(section)
    fields = [field for field in dataclasses.fields(section) if field.name != "kind"]
    return [Key(f.name, type_name(hints[f.name], f), f.default, meanings.get(f.name, "")) for f in fields]


def kind_of(section: type) -> str:
    """The `kind = "..."` that asks for it; empty if there is no choice."""
    return get_args(get_type_hints(section)["kind"])[0] if "kind" in get_type_hints(section) else ""


def sections_of(recipe: type) -> Iterator[tuple[str, tuple[type, ...]]]:
    """The sections of a kind of recipe, each with the kinds of thing it may hold."""
    hints = get_type_hints(recipe)
    for field in dataclasses.fields(recipe):
        yield field.name, field.metadata[KINDS]() if KINDS in field.metadata else (hints[field.name],)


def type_name(hint: Any, field: "dataclasses.Field[Any] | None" = None) -> str:
    if field is not None and KINDS in field.metadata:
        return "sections"
    if get_origin(hint) is Annotated:
        allowed = "" if (found := range_of(hint)) is None else f" {found}"
        return "path" if PATH in get_args(hint) else type_name(get_args(hint)[0]) + allowed
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(type_name, get_args(hint)))
    if get_origin(hint) is tuple:
        return "list of " + type_name(get_args(hint)[0]).replace("number", "numbers").replace("path", "paths")
    if get_origin(hint) is Literal:
        return " or ".join(map(written, get_args(hint)))
    return TYPES[hint]


def written(value: Any) -> str:
    """A value as TOML has it."""
    return json.dumps(value, ensure_ascii=False)


def explained(recipe: Recipe) -> str:
    """The whole recipe as TOML: each section and key with what it means, and a key's default where its value is another."""
    lines = []
    for name, kinds in sections_of(type(recipe)):
        section = getattr(recipe, name)
        lines += [*_explained(f"[{name}]", section, kinds), ""]
    return "\n".join(lines).rstrip()


def _explained(title: str, section: Any, kinds: tuple[type, ...]) -> Iterator[str]:
    yield f"{title}  # {about(type(section))}"
    if kind := kind_of(type(section)):
        others = [kind_of(other) for other in kinds if other is not type(section)]
        yield f"  kind = {written(kind)}" + (f"  # others are {', '.join(others)}" if others else "")
    for key in keys_of(type(section)):
        value = getattr(section, key.name)
        if key.type == "sections":
            for part in value:
                yield from (f"  {line}" for line in _explained(f"[{title[:-1]}.{key.name}]]", part, ()))
            continue
        default = "" if value == key.default else f" (default {written(key.default)})"
        yield f"  {key.name} = {written(value)}  # {key.type}; {key.meaning}{default}"


def about(section: type) -> str:
    """The first paragraph of a section's docstring, without its name."""
    text = " ".join((inspect.getdoc(section) or "").partition("\n\n")[0].split())
    start, colon, rest = text.partition(": ")
    return rest if colon and start.startswith("[") else text


@cache
def meanings_of(section: type) -> dict[str, str]:
    """key -> the comment at the end of its line, of the class itself and of those it is built on."""
    found: dict[str, str] = {}
    for cls in reversed(section.__mro__):
        if dataclasses.is_dataclass(cls):
            source = inspect.cleandoc("\n" + inspect.getsource(cls))
            tokens = tokenize.generate_tokens(io.StringIO(source).readline)
            comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
            body = ast.parse(source).body[0]
            assert isinstance(body, ast.ClassDef)
            for node in body.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    found[node.target.id] = comments.get(node.end_lineno or 0, found.get(node.target.id, ""))
    return found
