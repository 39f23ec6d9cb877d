"""The step function of a line search is what an arg-max finds everywhere."""

import numpy as np
import pytest

from trflm.evaluation.line_search import StepFunction, errors_along, upper_envelope


def test_envelope_by_hand() -> None:
    intercept, slope = np.array([0.0, 2.0, -3.0, 0.0, -9.0]), np.array([0.0, -1.0, 1.0, 0.0, 1.0])
    breaks, winners = upper_envelope(intercept, slope, 0.0, 10.0)
    assert (breaks, winners) == ([2.0, 3.0], [1, 0, 2])  # 2 - t, then 0 (the first of two equal lines), then t - 3
    assert upper_envelope(intercept, slope, 0.0, 3.0) == ([2.0], [1, 0])


@pytest.mark.parametrize("seed", range(12))
def test_errors_along_a_line_are_those_of_the_arg_max(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(20):
        n = rng.integers(1, 60)
        # small slopes of many lines: neighbours on the envelope differ by little; rounded: equal slopes, three-way crossings
        slope = np.round(rng.normal(0, 2, n), 1) if seed % 2 else rng.normal(0, 0.3, n)
        lines.append((np.round(rng.normal(0, 2, n), 1), slope, rng.integers(0, 9, n)))
    steps = errors_along(lines, -2.0, 7.0)
    middles = (steps.edges_J1[1:] + steps.edges_J1[:-1]) / 2
    expected = [sum(int(e[np.argmax(a + b * t)]) for a, b, e in lines) for t in middles]
    assert steps.values_J.tolist() == expected
    assert steps.edges_J1[[0, -1]].tolist() == [-2.0, 7.0]
    assert (np.diff(steps.edges_J1) > 0).all()
    assert steps.at(middles).tolist() == expected
    assert steps.at(np.array([steps.middle_of_least()]))[0] == min(expected)


def test_middle_of_the_widest_least_step() -> None:
    steps = StepFunction(np.array([0.0, 1.0, 2.0, 4.0, 5.0, 7.0]), np.array([3.0, 1.0, 2.0, 1.0, 1.0]))
    assert steps.middle_of_least() == 6.0
    assert steps.at(np.array([0.0, 1.0, 6.9, 7.0])).tolist() == [3.0, 1.0, 1.0, 1.0]


def test_one_line_alone_is_one_step() -> None:
    steps = errors_along([(np.array([1.0]), np.array([2.0]), np.array([3]))], 0.0, 4.0)
    assert (steps.edges_J1.tolist(), steps.values_J.tolist()) == ([0.0, 4.0], [3.0])
