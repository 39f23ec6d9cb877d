"""zeta of a field from estimates of its normalising constants, in place of what its learner believed.

    zeta_l = log Zhat_l - log Z_1,     l with pi_l > 0;   log Z_1 exact

Lengths are worked at by pi_l, as if a text of `SENTENCES` sentences had them. A length that training never saw has no
estimate; it lies on the line between its neighbours. Nothing else is smoothed: neighbouring lengths may truly differ.

Shapes: m the longest sentence of training.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from trflm.evaluation.bracket import Bracket
from trflm.evaluation.effort import Effort, Say, prepared
from trflm.evaluation.narrow import narrow
from trflm.field.snapshots import FieldModel
from trflm.sampling.estimator import EstimatorConfig

SENTENCES = 10_000


@dataclass(frozen=True)
class Calibration:
    """Of each field of a model."""

    zetas: list[Tensor]  # [m+1]
    gaps: list[float]  # how far the two ends are apart, as a share of the perplexity of sentences as long as pi has them
    how: str
    rounds: int
    minutes: float
    interrupted: bool


def calibrate(
    lm: FieldModel,
    how: EstimatorConfig,
    effort: Effort,
    watch: Callable[[int, list[float]], None] = lambda rounds, gaps: None,
    say: Say = lambda line: None,
) -> Calibration:
    """Until every field's gap is as small as asked, or time is up; `watch` sees the gaps after every round."""
    started = time.monotonic()
    counts = [{length: max(1, round(SENTENCES * p)) for length, p in enumerate(trf.pi.tolist()) if p > 0} for trf in lm.fields]
    tasks = prepared(lm, counts, how, effort, say)
    symbols = sum(n * (length + 1) for length, n in counts[-1].items())

    def gaps() -> list[float]:
        return [gap_of(task.bracket, symbols) for task in tasks]

    def rounds() -> int:
        return min(len(task.bracket.rounds) for task in tasks)

    interrupted = narrow(
        tasks,
        lambda: max(gaps()) <= effort.gap,
        effort.seconds_left(started),
        effort.goal(symbols),
        lambda: watch(rounds(), gaps()),
    )
    log_Z = [{1: trf.log_Z1(), **task.bracket.estimate()} for task, trf in zip(tasks, lm.fields, strict=True)]
    zetas = [zeta_from(found, trf.max_length) for found, trf in zip(log_Z, lm.fields, strict=True)]
    minutes = (time.monotonic() - started) / 60
    return Calibration(zetas, gaps(), tasks[-1].estimator.describe(), rounds(), minutes, interrupted)


def gap_of(bracket: Bracket, symbols: int) -> float:
    low, high = bracket.bounds()
    return math.expm1(min((high - low) / symbols, 700.0)) if high > low else 0.0


def zeta_from(log_Z: dict[int, float], max_length: int) -> Tensor:
    """[m+1] zeta[1] is 0; between lengths that are known it is linear, and beyond them it goes on so."""
    known = torch.tensor(sorted(log_Z))
    value = torch.tensor([log_Z[length] - log_Z[1] for length in known.tolist()], dtype=torch.float64)
    every = torch.arange(max_length + 1)
    at = torch.searchsorted(known, every.clamp(min=1)).clamp(max=len(known) - 1)
    below = (at - 1).clamp(min=0)
    span = (known[at] - known[below]).clamp(min=1)
    zeta = value[below] + (value[at] - value[below]) * (every - known[below]) / span
    zeta[0] = 0.0
    return zeta
