"""Importance sampling: Zhat = mean over n draws x ~ q of exp(phi(x)) / q(x).

To be trusted while its effective sample size is large (above 50, say): where a few weights carry the sum, the estimate is
low with high probability, though right on average. Annealing and sequential Monte Carlo start from the same draws.

Shapes: R estimates, n draws each.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from trflm.lms.proposals.protocol import draw, draw_sentences_of
from trflm.ranges import Count, check_fields
from trflm.sampling.estimator import Estimates, Problem
from trflm.sampling.weights import effective_size, log_mean
from trflm.text import Batch


def importance_weights(rng: torch.Generator, problem: Problem, length: int, n: int) -> tuple[Batch, Tensor]:
    """n draws of the proposal and [n] log exp(phi) / q."""
    lengths_n = torch.full((n,), length, device=problem.trf.zeta.device)
    drawn = draw_sentences_of(problem.proposal, lengths_n, rng)
    return drawn, problem.score(drawn, problem.log_q(drawn))


@dataclass(frozen=True)
class Importance:
    """See `estimator.Estimator`."""

    problem: Problem
    size: int

    def prepare(self, rng: torch.Generator, lengths: Sequence[int]) -> "Importance":
        return self

    def sized(self, size: int) -> "Importance":
        return replace(self, size=size)

    def forward(self, rng: torch.Generator, length: int, n: int) -> Estimates:
        drawn, log_w = importance_weights(rng, self.problem, length, n * self.size)
        return grouped(rng, drawn, log_w.view(n, self.size))

    def backward(self, rng: torch.Generator, samples: Batch, forward: Estimates) -> Tensor:
        return with_first_replaced(forward.log_w_Rn, self.problem.score(samples, self.problem.log_q(samples)))

    def describe(self) -> str:
        return f"importance sampling with the proposal, {self.size} draws an estimate"


def grouped(rng: torch.Generator, drawn: Batch, log_w_Rn: Tensor) -> Estimates:
    """Independent weights in groups: their means, and one draw of each group, by weight."""
    R, n = log_w_Rn.shape
    choice_R = draw(log_w_Rn.log_softmax(1), rng) + torch.arange(R, device=log_w_Rn.device) * n
    return Estimates(log_mean(log_w_Rn), log_w_Rn, drawn.select(choice_R))


def with_first_replaced(log_w_Rn: Tensor, log_w_R: Tensor) -> Tensor:
    """[R] log of the mean weights, the first of each group being this one."""
    return log_mean(torch.cat([log_w_R[:, None], log_w_Rn[:, 1:]], 1))


def trusted(estimates: Estimates, enough: float = 50.0) -> bool:
    """Do the weights of every estimate carry it evenly enough?"""
    return bool((effective_size(estimates.log_w_Rn) >= enough).all())


@dataclass(frozen=True)
class ImportanceConfig:
    kind: Literal["is"] = "is"
    size: Count = 256  # draws an estimate

    def __post_init__(self) -> None:
        check_fields(self)

    def build(self, problem: Problem) -> Importance:
        return Importance(problem, self.size)
