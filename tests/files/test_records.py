"""Typed results go to JSON and come back the same."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from trflm.files.records import IF_SET, KEY, from_record, to_record


@dataclass(frozen=True)
class Point:
    x: float
    y: float


@dataclass(frozen=True, kw_only=True)
class Named(Point):
    name: Literal["a", "b"]
    other: str | None
    note: str | None = field(default=None, metadata=IF_SET)
    best: Point | None = field(default=None, metadata={**IF_SET, KEY: "the best"})


@dataclass(frozen=True)
class Many:
    points: tuple[Named | Point, ...]
    lines: Mapping[str, tuple[tuple[float, float], ...]]
    count: int = 3


MANY = Many(
    (
        Point(1.0, 2.0),
        Named(x=0.0, y=0.5, name="a", other=None),
        Named(x=0.0, y=0.5, name="b", other="o", best=Point(3.0, 4.0)),
    ),
    {"up": ((0.0, 1.0), (2.0, 3.0)), "none": ()},
)


def test_there_and_back() -> None:
    record = to_record(MANY)
    assert list(record["points"][1]) == ["x", "y", "name", "other"]  # in order; what is not set and may be left out, is
    assert list(record["points"][2]) == ["x", "y", "name", "other", "the best"]
    assert from_record(Many, json.loads(json.dumps(record))) == MANY


def test_a_key_that_has_a_default_may_be_missing_and_one_too_many_is_passed_over() -> None:
    assert from_record(Many, {"points": [], "lines": {}, "new": 1}) == Many((), {})


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {"points": []},
        {"points": 1, "lines": {}},
        {"points": [{"x": 1.0}], "lines": {}},
        {"points": [{"x": "1", "y": 1.0}], "lines": {}},
        {"points": [{"x": 1.0, "y": 1.0, "name": "c", "other": None}], "lines": {}},
        {"points": [], "lines": {"up": [[1.0]]}},
        {"points": [], "lines": []},
        {"points": [None], "lines": {}},
        {"points": [], "lines": {}, "count": 1.5},
    ],
)
def test_what_does_not_fit_is_an_error(value: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        from_record(Many, value)
