"""Typed results as JSON and back: a dataclass is an object whose keys are its fields, in their order."""

import dataclasses
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

KEY = "key"  # the metadata of a field whose key is not its name
IF_SET = {"if set": True}  # the metadata of a field that is left out of the file while it is None


def to_record(value: Any) -> Any:
    """`value` as `json.dump` takes it."""
    if dataclasses.is_dataclass(value):
        return {
            _key(field): to_record(item)
            for field in dataclasses.fields(value)
            if (item := getattr(value, field.name)) is not None or not IF_SET.items() <= field.metadata.items()
        }
    if isinstance(value, Mapping):
        return {str(key): to_record(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_record(item) for item in value]
    return value


def from_record(kind: Any, value: Any) -> Any:
    """The inverse: `value`, as `json.load` gives it, as an instance of `kind`. Keys that a dataclass lacks are passed over.

    What does not fit is a KeyError, TypeError, ValueError or AttributeError.
    """
    arguments = get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        return from_record(_fitting(arguments, value), value)
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise TypeError(f"{value!r}: an object is expected")
        hints = get_type_hints(kind)
        stored = {field.name: _key(field) for field in dataclasses.fields(kind)}
        found = {name: from_record(hints[name], value[key]) for name, key in stored.items() if key in value}
        return kind(**found)  # pyright: ignore[reportCallIssue]
    origin = get_origin(kind)
    if origin is Mapping:
        return {from_record(arguments[0], key): from_record(arguments[1], item) for key, item in value.items()}
    if origin is tuple:
        kinds = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else arguments
        return tuple(from_record(each, item) for each, item in zip(kinds, value, strict=True))
    if origin is not None:  # Literal
        if value not in arguments:
            raise ValueError(f"{value!r}: one of {', '.join(map(repr, arguments))} is expected")
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > 2**1000:
            raise ValueError("a number beyond all floats")
        return float(value)
    if not isinstance(value, kind):
        raise TypeError(f"{value!r}: {kind.__name__} is expected")
    return value


def _key(field: dataclasses.Field) -> str:
    return field.metadata.get(KEY) or field.name


def _fitting(kinds: tuple[Any, ...], value: Any) -> Any:
    """Of several kinds the one that fits: None, or the first dataclass of which everything without a default is there."""
    if value is None:
        if NoneType not in kinds:
            raise TypeError("null: an object is expected")
        return NoneType
    *some, last = (kind for kind in kinds if kind is not NoneType)
    for kind in some:
        needed = {_key(f) for f in dataclasses.fields(kind) if f.default is f.default_factory is dataclasses.MISSING}
        if needed <= value.keys():
            return kind
    return last
