"""Rounds of work that narrow an interval: how much of it each round gets, and when to stop.

What is left between the ends after N rounds of size P is about v / P, the bias of estimates of that size (both ends, seen
as the difference of backward and forward), and 2 u log(..) / N for the probability of an accident. With c seconds a unit of
size, N = time / (c P):

    the sum is least at P = sqrt(v time / (2 u log(..) c));   a goal G is reached soonest with P = 2 v / G

Sizes follow the lesser of the two as v is seen, and at most double from one round to the next. All this looks at earlier
rounds only, as the bounds allow (`bracket`).
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from trflm.evaluation.bracket import Bracket, Samples
from trflm.learning.pull import PullInfo
from trflm.sampling.estimator import Estimator, Problem

MOST = 16384  # size of an estimate: bounds the memory of a run
LOG_ODDS = 5.0  # about log(1 / alpha) + 2 log 2


@dataclass(frozen=True)
class Task:
    """One field to be bracketed."""

    problem: Problem
    bracket: Bracket
    estimator: Estimator
    samples: Samples
    rng: torch.Generator
    costs: list[float]  # seconds of each round
    pulled: PullInfo | None = None  # what was done to the proposal before

    @property
    def begun(self) -> bool:
        """Something is known."""
        return bool(self.bracket.rounds) or self.bracket.is_exact

    def advance(self, size: int) -> None:
        started = time.monotonic()
        self.bracket.advance(self.rng, self.estimator, size, self.samples)
        self.costs.append(time.monotonic() - started)


def narrow(tasks: list[Task], done: Callable[[], bool], seconds: float, gap: float, watch: Callable[[], None]) -> bool:
    """Rounds for every task in turn until `done`, or until the next one would not end in time; the first is always made. An
    interrupt keeps the rounds that are complete, and is passed on if there is none for some task. Says whether it was
    interrupted."""
    started = time.monotonic()
    tasks = [task for task in tasks if not task.bracket.is_exact]
    try:
        while tasks and not done():
            left = (seconds - (time.monotonic() - started)) / len(tasks)
            sizes = [next_size(task, left, gap) for task in tasks]
            if not all(sizes):
                break
            for task, size in zip(tasks, sizes, strict=True):
                task.advance(size)
                watch()
    except KeyboardInterrupt:
        if not all(task.begun for task in tasks):
            raise
        return True
    return False


def next_size(task: Task, seconds: float, gap: float) -> int:
    """The size of the next round, `gap` the goal in nats of the whole text; 0 if there is no time for another."""
    rounds, bracket = task.bracket.rounds, task.bracket
    if not rounds:
        return task.estimator.size
    now = rounds[-1].size
    same = [k for k, r in enumerate(rounds) if r.size == now]
    seconds_a_unit = sum(task.costs[k] for k in same) / len(same) / now
    biased = sum(rounds[k].backward - rounds[k].forward for k in same) / len(same)
    if biased <= 0:
        wanted = float(now)
    else:
        v = biased * now
        by_time = math.sqrt(v * max(seconds, 0.0) / (2 * bracket.unit * LOG_ODDS * seconds_a_unit))
        wanted = min(by_time, 2 * v / gap) if gap > 0 else by_time
    size = int(min(max(wanted, now), 2 * now, MOST))
    if size * seconds_a_unit <= seconds:
        return size
    return int(now) if now * seconds_a_unit <= seconds else 0


def closing(brackets: list[Bracket]) -> float | None:
    """The exponent with which the difference of both ends falls as the size grows, by least squares in logs; None if it
    cannot be said."""
    points: list[tuple[float, float]] = []
    for bracket in brackets:
        for size in {r.size for r in bracket.rounds}:
            found = [r.backward - r.forward for r in bracket.rounds if r.size == size]
            if sum(found) > 0:
                points.append((math.log(size), math.log(sum(found) / len(found))))
    if len({x for x, _ in points}) < 2:
        return None
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
