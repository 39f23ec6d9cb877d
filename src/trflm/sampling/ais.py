"""Annealed importance sampling (Neal 2001) from the proposal to the field, and its reverse.

With 0 = b_0 < b_1 < ... < b_K = 1, s(x) = phi(x) - log q(x) and moves T_k that leave p_{b_k} as it is:

    forward:   x_0 ~ q,  x_k ~ T_k(x_{k-1}),            log w = sum_{k=1}^K (b_k - b_{k-1}) s(x_{k-1})
    reverse:   x_{K-1} ~ p,  x_{k-1} ~ T~_k(x_k),       the same sum along that path

T_k is a sweep from left to right, so its reverse T~_k sweeps from right to left. An estimate is the mean of `chains` weights;
a greater `size` has more temperatures in proportion, not more chains.
Temperatures have equal conditional effective sample size on pilot chains; a length between the pilots' has the course of
the next longer one in proportionally fewer steps.

Shapes: C chains, L words, K steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from trflm.lms.proposals.protocol import draw_sentences_of
from trflm.ranges import Count, Range, check_fields
from trflm.sampling.bridge import FORWARD, REVERSED, Points, sweep
from trflm.sampling.estimator import Estimates, Problem, same_length
from trflm.sampling.importance import grouped, with_first_replaced
from trflm.sampling.weights import next_temperature, stretched
from trflm.text import Batch


@dataclass(frozen=True)
class AISConfig:
    """Move and course."""

    kind: Literal["ais"] = "ais"
    size: Count = 8  # chains an estimate at the temperatures of the pilot; a size of 16 has twice as many temperatures
    share: Annotated[float, Range(0.001, 0.999)] = 0.9  # conditional effective sample size of a step, as a share of the chains
    most_steps: Count = 1000  # K of a pilot at most
    block: Count = 2  # s
    trials: Count = 8  # M
    pilot_chains: Annotated[int, Range(2, 10**6)] = 32
    pilots: Count = 4  # lengths on which the temperatures are placed

    def __post_init__(self) -> None:
        check_fields(self)

    def build(self, problem: Problem) -> "AIS":
        return AIS(problem, self, self.size)


def anneal(
    rng: torch.Generator, points: Points, problem: Problem, b: Tensor, block: int, trials: int, direction: int = FORWARD
) -> tuple[Points, Tensor]:
    """Along these temperatures, or with REVERSED back along them: where the chains end, and [C] log w."""
    log_w_C = torch.zeros_like(points.phi_C)
    steps = range(len(b) - 1)[::direction]
    for k in steps:  # between b_k and b_{k+1}
        log_w_C = log_w_C + (b[k + 1] - b[k]) * points.score_C
        if k != steps[-1]:
            at = float(b[k + 1] if direction == FORWARD else b[k])
            points, _ = sweep(rng, points, problem, at, block, trials, direction)
    return points, log_w_C


def place_temperatures(rng: torch.Generator, problem: Problem, config: AISConfig, length: int) -> Tensor:
    """[K+1] from 0 to 1, by equal conditional effective sample size on chains that are annealed on the way."""
    points = start(rng, problem, length, config.pilot_chains)
    log_w_C, b = torch.zeros_like(points.phi_C), [0.0]
    while b[-1] < 1:
        b.append(1.0 if len(b) == config.most_steps else next_temperature(log_w_C, points.score_C, b[-1], config.share))
        log_w_C = log_w_C + (b[-1] - b[-2]) * points.score_C
        if b[-1] < 1:
            points, _ = sweep(rng, points, problem, b[-1], config.block, config.trials)
    return torch.tensor(b, dtype=torch.float64)


def start(rng: torch.Generator, problem: Problem, length: int, n: int) -> Points:
    lengths_n = torch.full((n,), length, device=problem.trf.zeta.device)
    return Points.at(draw_sentences_of(problem.proposal, lengths_n, rng), problem)


@dataclass(frozen=True)
class AIS:
    """See `estimator.Estimator`."""

    problem: Problem
    config: AISConfig
    size: int
    courses: dict[int, Tensor] = field(default_factory=dict)  # by pilot length

    def prepare(self, rng: torch.Generator, lengths: Sequence[int]) -> "AIS":
        ordered = sorted(set(lengths))
        n = min(self.config.pilots, len(ordered))
        chosen = {ordered[round((k + 1) * len(ordered) / n) - 1] for k in range(n)}  # the longest among them
        courses = {length: place_temperatures(rng, self.problem, self.config, length) for length in sorted(chosen)}
        return replace(self, courses=courses)

    def sized(self, size: int) -> "AIS":
        return replace(self, size=size)

    def course(self, length: int) -> Tensor:
        """The temperatures for this length."""
        assert self.courses, "prepare comes first"
        pilot = min((at for at in self.courses if at >= length), default=max(self.courses))
        b = self.courses[pilot]
        return stretched(b, max(1, round((len(b) - 1) * length / pilot * self.size / self.config.size)))

    def forward(self, rng: torch.Generator, length: int, n: int) -> Estimates:
        points = start(rng, self.problem, length, n * self.config.size)
        points, log_w_C = anneal(rng, points, self.problem, self.course(length), self.config.block, self.config.trials)
        return grouped(rng, same_length(points.words_CL), log_w_C.view(n, self.config.size))

    def backward(self, rng: torch.Generator, samples: Batch, forward: Estimates) -> Tensor:
        points, length = Points.at(samples, self.problem), int(samples.lengths_B[0])
        config, b = self.config, self.course(length)
        _, log_w_R = anneal(rng, points, self.problem, b, config.block, config.trials, REVERSED)
        return with_first_replaced(forward.log_w_Rn, log_w_R)

    def describe(self) -> str:
        courses = ", ".join(f"{len(b) - 1} at {length} words" for length, b in self.courses.items())
        return f"annealed importance sampling, {self.config.size} chains an estimate, temperatures of the pilot: {courses}"
