"""The numbers that an argument of a command or a key of a recipe may be: a range stands in its type, as in

    batch: Count = 100

and is checked before anything else is done. Functions of the API (`bounded`), commands (cli/bounds.py), recipes
(experiment/toml.py), `trf train --explain` and docs/recipes.md all read it from there. The upper ends are beyond every use that
we know of and below what would hang or exhaust a machine.
"""

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from trflm.errors import InputError


@dataclass(frozen=True)
class Range:
    """From `low` to `high`, both included unless `above`: then `low` is not."""

    low: float
    high: float
    above: bool = False

    def __contains__(self, value: float) -> bool:
        return (self.low < value if self.above else self.low <= value) and value <= self.high  # nan is in no range

    def __str__(self) -> str:
        low, high = shown(self.low), shown(self.high)
        return f"above {low}, at most {high}" if self.above else f"from {low} to {high}"


Seed = Annotated[int, Range(0, 2**53)]
ThreadCount = Annotated[int, Range(0, 1024)]  # also of processes; 0: as many as suits
Port = Annotated[int, Range(0, 65535)]  # 0: any that is free
Bytes = Annotated[int, Range(1, 2**40)]
Amount = Annotated[int, Range(0, 10**6)]
Count = Annotated[int, Range(1, 10**6)]
Steps = Annotated[int, Range(0, 10**9)]  # of time or of a text: nothing is allocated for them
Size = Annotated[int, Range(1, 16384)]  # of a layer
Layers = Annotated[int, Range(1, 100)]
Width = Annotated[int, Range(1, 100)]  # of a filter, in words
NGramOrder = Annotated[int, Range(1, 20)]
Share = Annotated[float, Range(0, 1)]
Positive = Annotated[float, Range(0, 10**9, above=True)]
NotNegative = Annotated[float, Range(0, 10**9)]
Weight = Annotated[float, Range(-(10**6), 10**6)]


def range_of(hint: Any) -> Range | None:
    """The range in a type, be it that of an item of a tuple, of a value of a mapping or of something that may be left out."""
    if get_origin(hint) is Annotated:
        inner, *wishes = get_args(hint)
        return next((wish for wish in wishes if isinstance(wish, Range)), None) or range_of(inner)
    if get_origin(hint) in (tuple, list, Mapping, Union, UnionType):
        return next((found for part in get_args(hint) if (found := range_of(part)) is not None), None)
    return None


def check(value: Any, allowed: Range, name: str) -> None:
    """An InputError unless the number, or each of several, is in the range. `name` is what the user wrote before it."""
    numbers = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple | list) else [value]
    for number in numbers:
        if number is not None and number not in allowed:
            raise InputError(f"{name}{shown(number)}: must be {allowed}")


def ranges_of(hints: Mapping[str, Any]) -> dict[str, Range]:
    """Of the names that are numbers, the range of each."""
    return {name: found for name, hint in hints.items() if (found := range_of(hint)) is not None}


P = ParamSpec("P")
T = TypeVar("T")


def bounded(function: Callable[P, T], written: Callable[[str, Any], str] = lambda name, hint: f"{name} = ") -> Callable[P, T]:
    """The function; a number out of the range of its type is an InputError. `written`: what stands before a number of this name
    and type where the user wrote it."""
    signature = inspect.signature(function)

    @functools.cache
    def hints() -> dict[str, Any]:  # not before the first call: a type may be defined further down
        return get_type_hints(function, include_extras=True)

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        given = signature.bind(*args, **kwargs).arguments
        for name, allowed in ranges_of(hints()).items():
            if name in given:
                check(given[name], allowed, written(name, hints()[name]))
        return function(*args, **kwargs)

    return checked


def check_fields(settings: Any) -> None:
    """`bounded` for a dataclass: call it when one was made."""
    for name, allowed in ranges_of(get_type_hints(type(settings), include_extras=True)).items():
        check(getattr(settings, name), allowed, f"{name} = ")


def shown(number: float) -> str:
    """As a user writes it; a number of hundreds of digits by its length."""
    if isinstance(number, int) and abs(number) >= 10**30:
        return f"a number of {int(math.log10(abs(number))) + 1} digits"
    return str(int(number)) if not isinstance(number, float) or (number.is_integer() and abs(number) < 1e16) else repr(number)
