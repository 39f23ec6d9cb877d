"""Estimates of log Z_l = log sum_x exp(phi(x)) over the sentences of one length, and what is known of them.

An estimator draws sentences from the proposal q and weighs them; its `size` is the work of an estimate:

    forward:   E[Zhat] = Z_l                      so log Zhat is a lower bound of log Z_l in expectation (Jensen)
    backward:  E[1 / Zhat] = 1 / Z_l              if it is started at an exact sample of p_l: an upper bound

Both hold for any amount of work; more work brings them together (bidirectional Monte Carlo; Grosse, Ghahramani and Adams
2015). Backward is forward with one of its weights replaced by that of a chain which ran the other way from the sample: if
forward has the law psi(everything), then (Zhat / Z) psi(everything) is the law of backward, so E[1/Zhat] = int psi / Z = 1/Z.

What adapts to the field (temperatures, how prefixes are weighed) is settled by `prepare` in a pilot run whose weights are
thrown away: the equations need a course that does not depend on the weights it gives.

Shapes: R estimates, n weights each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

from trflm.field.trf import TRF
from trflm.lms.proposals.protocol import Proposal
from trflm.text import Batch


@dataclass(frozen=True)
class Estimates:
    """R independent estimates of log Z of one length."""

    log_Z_R: Tensor  # float64
    log_w_Rn: Tensor  # the weights they are the means of; of the last resampling on, for SMC
    drawn: Batch  # R sentences, one of each estimate, chosen by weight: nearly samples of the field


class Estimator(Protocol):
    """One way of estimating, for one field and one proposal."""

    @property
    def size(self) -> int: ...

    def prepare(self, rng: torch.Generator, lengths: Sequence[int]) -> Self:
        """Ready for lengths in this range: everything that adapts is settled by a pilot run."""
        ...

    def sized(self, size: int) -> Self:
        """The same with so much work an estimate: draws, particles, or chains times temperatures."""
        ...

    def forward(self, rng: torch.Generator, length: int, n: int) -> Estimates:
        """n estimates with E[Zhat] = Z."""
        ...

    def backward(self, rng: torch.Generator, samples: Batch, forward: Estimates) -> Tensor:
        """[R] estimates with E[1 / Zhat] = 1 / Z, one from each of these samples of the field, all of one length. They may use
        the weights of a forward run of that length as those that are not replaced."""
        ...

    def describe(self) -> str:
        """What was settled, on one line."""
        ...


@dataclass(frozen=True)
class Problem:
    """What is estimated, and with what."""

    trf: TRF
    proposal: Proposal

    def score(self, batch: Batch, log_q_B: Tensor) -> Tensor:
        """[B] phi(x) - log q(x): the log weight of a draw from q."""
        return self.trf.phi(batch) - log_q_B

    def log_q(self, batch: Batch) -> Tensor:
        with torch.no_grad():
            return self.proposal.log_q(batch).double()


def same_length(words_BL: Tensor) -> Batch:
    """The rows of a matrix as sentences."""
    B, L = words_BL.shape
    return Batch(words_BL.reshape(-1), torch.full((B,), L, device=words_BL.device))


def as_rows(batch: Batch) -> Tensor:
    """[B, L] the words of sentences of one length."""
    return batch.ids_N.view(len(batch), -1)


class EstimatorConfig(Protocol):
    """How to estimate: a frozen dataclass beside its estimator, named in `estimators.ESTIMATORS`."""

    @property
    def kind(self) -> str: ...

    def build(self, problem: Problem) -> Estimator: ...
