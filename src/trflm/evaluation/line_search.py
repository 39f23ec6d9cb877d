"""Errors along a line of weights, exactly (Och, 2003: minimum error rate training).

Along one weight t every hypothesis is a line: intercept + slope * t. The best hypothesis of an utterance is the upper
envelope of its lines, so the errors of a whole set are a step function of t that a few breakpoints describe.

Shapes: K hypotheses of one utterance, J steps.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

NARROW = 1e-12  # of the searched range


@dataclass(frozen=True, eq=False)
class StepFunction:
    """`values_J[j]` between `edges_J1[j]` and `edges_J1[j + 1]`."""

    edges_J1: np.ndarray
    values_J: np.ndarray

    def at(self, points: np.ndarray) -> np.ndarray:
        """The value at each point; at an edge the value to the right, at the last the one to the left."""
        step = np.searchsorted(self.edges_J1, points, side="right") - 1
        return self.values_J[np.clip(step, 0, len(self.values_J) - 1)]

    def middle_of_least(self) -> float:
        """The middle of the widest step of least value (the first of equals): the safest place to stand."""
        least_J = np.flatnonzero(self.values_J == self.values_J.min())
        widest = least_J[np.argmax(np.diff(self.edges_J1)[least_J])]
        return float((self.edges_J1[widest] + self.edges_J1[widest + 1]) / 2)


def upper_envelope(intercept_K: np.ndarray, slope_K: np.ndarray, low: float, high: float) -> tuple[list[float], list[int]]:
    """Which line is highest where: the winners from `low` to `high`, and the points at which each hands over.

    Of equal lines the first wins, as in an arg-max.
    """
    value_K = intercept_K + slope_K * low
    winner = _steepest(np.flatnonzero(value_K == value_K.max()), slope_K)
    winners, breaks = [winner], []
    while True:
        steeper = np.flatnonzero(slope_K > slope_K[winner])
        if not len(steeper):
            return breaks, winners
        crossing = (intercept_K[winner] - intercept_K[steeper]) / (slope_K[steeper] - slope_K[winner])
        first = crossing.min()
        if first >= high:
            return breaks, winners
        winner = _steepest(steeper[crossing == first], slope_K)
        breaks.append(max(float(first), low))
        winners.append(winner)


def _steepest(index: np.ndarray, slope_K: np.ndarray) -> int:
    return int(index[np.argmax(slope_K[index])])


def errors_along(lines: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]], low: float, high: float) -> StepFunction:
    """Total errors for t from `low` to `high`; each utterance gives (intercept_K, slope_K, errors_K)."""
    start = 0
    places: list[float] = []
    jumps: list[int] = []
    for intercept_K, slope_K, errors_K in lines:
        breaks, winners = upper_envelope(intercept_K, slope_K, low, high)
        errors = errors_K[winners]
        start += int(errors[0])
        places += breaks
        jumps += np.diff(errors).tolist()
    order = np.argsort(places, kind="stable")
    edges_J1 = np.concatenate([[low], np.array(places)[order], [high]])
    values_J = start + np.concatenate([[0.0], np.cumsum(np.array(jumps)[order])])
    wide_J = np.diff(edges_J1) > NARROW * (high - low)  # crossings that only rounding keeps apart are one
    starts = edges_J1[:-1][wide_J]
    starts[0] = low
    return StepFunction(np.concatenate([starts, [high]]), values_J[wide_J])
