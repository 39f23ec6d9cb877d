"""Markov chains over sentences of all lengths, and the distribution they are to sample.

    p(l, x; theta, zeta) = pi0_l exp(phi(x)) / (Z_1 exp(zeta_l))        (eq:model_all_zeta)

Only ratios are ever used, so log Z_1 is left out.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from trflm.field.trf import TRF
from trflm.text import Batch


class Density(Protocol):
    """A distribution over sentences, up to a constant factor."""

    def log_density(self, batch: Batch) -> Tensor:
        """[B] float64."""
        ...


class Target:
    """log p(l, x) up to the constant -log Z_1."""

    def __init__(self, trf: TRF, pi0: Tensor) -> None:
        self.trf = trf
        self.log_pi0 = pi0.to(trf.zeta).log()

    @property
    def max_length(self) -> int:
        return len(self.log_pi0) - 1

    def log_density(self, batch: Batch) -> Tensor:
        """[B] log pi0_l + phi(x) - zeta_l, float64."""
        return self.trf.phi(batch) + (self.log_pi0 - self.trf.zeta)[batch.lengths_B]


@dataclass(frozen=True)
class Chains:
    """The current sentence of each chain, and its log density; None until a move needs it."""

    batch: Batch
    log_p_C: Tensor | None = None

    @classmethod
    def at(cls, batch: Batch, target: Density) -> "Chains":
        return cls(batch, target.log_density(batch))

    def log_density(self, target: Density) -> Tensor:
        """[C], computed if it is not known."""
        return target.log_density(self.batch) if self.log_p_C is None else self.log_p_C


@dataclass(frozen=True)
class Weighted:
    """Sentences that stand for the target: sum of weights times f is an estimate of E[f]. The weights sum to one on average."""

    batch: Batch
    weight_B: Tensor


@dataclass(frozen=True)
class MoveInfo:
    """How many proposals a move made over all chains, and how many were accepted; and what was expected of it before its last
    coin was thrown (Rao-Blackwell: the expectation has the same mean as what came to be, and a smaller variance)."""

    tried: int
    accepted: int
    reach_kl: Tensor | None = None  # [m+1, m+1] sum over chains of the probability to go from length k to l, of a jump
    expected: "Weighted | None" = None  # the expected sentences, of a move that was asked to keep them

    @property
    def acceptance(self) -> float:
        return self.accepted / max(self.tried, 1)

    @property
    def length_share(self) -> Tensor | None:
        """[m+1] the expected share of each length, after a move that changes lengths."""
        return None if self.reach_kl is None else self.reach_kl.sum(0) / self.reach_kl.sum()


def replace(batch: Batch, log_p_C: Tensor, changed: Tensor, new: Batch, log_p: Tensor) -> Chains:
    """The chains numbered `changed` go to the sentences of `new`, the others stay."""
    if not len(changed):
        return Chains(batch, log_p_C)
    both = Batch(torch.cat([batch.ids_N, new.ids_N]), torch.cat([batch.lengths_B, new.lengths_B]))
    index_C = torch.arange(len(batch), device=changed.device)
    index_C[changed] = torch.arange(len(changed), device=changed.device) + len(batch)
    return Chains(both.select(index_C), torch.cat([log_p_C, log_p])[index_C])
