"""From TOML tables to typed, frozen dataclasses. An unknown or mistyped key is an error that names the nearest one.

A section that can hold several kinds of thing says which by `kind = "..."`; the dataclass that holds it lists them (`kinds`).
"""

import dataclasses
import difflib
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from trflm.errors import InputError
from trflm.files.parse import parse_toml
from trflm.files.reader import read_whole
from trflm.kinds import KINDS
from trflm.ranges import check, range_of

NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a string in quotes"}


def read_tables(path: Path | str) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return parse_toml(read_whole(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte 0x{error.object[error.start]:02x} at offset {error.start} is not UTF-8") from error
    except ValueError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from error


def apply_override(tables: dict[str, Any], override: str) -> None:
    """Set `section.key=value`; the value is read as TOML, or as a plain string if it is not TOML."""
    name, equals, text = override.partition("=")
    *sections, key = name.strip().split(".")
    if not equals or not sections or not key:
        raise InputError(f"--set {override}: write it as section.key=value, for instance learner.batch=200")
    try:
        value = parse_toml(f"value = {text}")["value"]
    except ValueError:
        value = text
    for section in sections:
        tables = tables.setdefault(section, {})
        if not isinstance(tables, dict):
            raise InputError(f"--set {override}: {section} is a value, not a section")
    tables[key] = value


def parse(kind: Any, value: Any, where: str, name: str = "", kinds: tuple[type, ...] = ()) -> Any:
    """`value` as an instance of `kind`: a dataclass (from a table), a tuple, or a plain type, perhaps with its range; or of one
    of several `kinds`."""
    if get_origin(kind) in (Union, UnionType):  # one of something, or a list of them
        single, several = get_args(kind)
        kind = several if isinstance(value, list) else single
    if get_origin(kind) is Annotated:
        if (allowed := range_of(kind)) is not None and isinstance(value, int | float):
            check(value, allowed, f"{where}: {name} = ")
        return parse(get_args(kind)[0], value, where, name, kinds)
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise InputError(f"{where}: {name} = {value!r}: expected a list")
        return tuple(parse(get_args(kind)[0], item, where, f"{name}[{i}]", kinds) for i, item in enumerate(value))
    if kinds:
        kind = choose(kinds, value, where, name)
    if dataclasses.is_dataclass(kind):
        return parse_table(kind, value, where, name)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise InputError(f"{where}: {name} = {value!r}: expected {' or '.join(map(repr, get_args(kind)))}")
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise InputError(f"{where}: {name} = {value!r}: expected {NAMES[kind]}")
    return value


def parse_table(kind: Any, table: Any, where: str, name: str = "") -> Any:
    """A dataclass from a table; keys that it lacks have their defaults."""
    if not isinstance(table, dict):
        raise InputError(f"{where}: {name} = {table!r}: expected a section [{name}]")
    hints = get_type_hints(kind, include_extras=True)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    for key in table:
        if key not in fields:
            full = f"{name}.{key}" if name else f"[{key}]"
            close = difflib.get_close_matches(key, fields, n=1, cutoff=0.4)
            remedy = f"did you mean {close[0]}?" if close else f"the keys here are {', '.join(fields)}"
            raise InputError(f"{where}: {full}: unknown {'key' if name else 'section'}; {remedy}")
    for f in fields.values():
        if f.name not in table and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            table = {**table, f.name: {}}  # a required section: its own check says what is missing in it
    inner = f"{name}." if name else ""
    kinds = {key: f.metadata[KINDS]() if KINDS in f.metadata else () for key, f in fields.items()}
    values = {key: parse(hints[key], item, where, inner + key, kinds[key]) for key, item in table.items()}
    try:
        return kind(**values)
    except ValueError as error:
        raise InputError(f"{where}: {f'[{name}] ' if name else ''}{error}") from error


def choose(kinds: tuple[type, ...], table: Any, where: str, name: str) -> Any:
    """The kind that the table names; the first if it names none."""
    by_kind = {get_args(get_type_hints(kind)["kind"])[0]: kind for kind in kinds}
    if not isinstance(table, dict):
        raise InputError(f"{where}: {name} = {table!r}: expected a section [{name}]")
    wanted = table.get("kind", next(iter(by_kind)))
    if not isinstance(wanted, str) or wanted not in by_kind:
        close = difflib.get_close_matches(str(wanted), by_kind, n=1, cutoff=0.0)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise InputError(f"{where}: {name}.kind = {wanted!r}: expected one of {', '.join(by_kind)}{hint}")
    return by_kind[wanted]
