"""Sentences from a trained field: l ~ pi exactly, then x ~ p_l by Markov moves at that length, one chain a sentence.

Lengths need no Markov chain: p(l, x) = pi_l p_l(x). Every sentence comes from a chain of its own after `burn_in` sweeps, so
there is nothing to thin: the sentences are independent.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trflm.field.trf import TRF
from trflm.lms.proposals.protocol import Proposal, draw_sentences_of
from trflm.sampling.chains import Chains
from trflm.sampling.gibbs import block_gibbs
from trflm.sampling.mixture import TransMSConfig
from trflm.text import Batch
from trflm.text.lengths import draw_from_cdf


@dataclass(frozen=True)
class FieldSampler:
    """The proposal and the settings of the moves that a field is sampled by."""

    proposal: Proposal
    config: TransMSConfig

    def draw(self, rng: torch.Generator, trf: TRF, n: int, length: int | None, burn_in: int) -> Batch:
        return draw_sentences(rng, trf, self.proposal, n, length, burn_in, self.config)


def draw_sentences(
    rng: torch.Generator, trf: TRF, proposal: Proposal, n: int, length: int | None, burn_in: int, config: TransMSConfig
) -> Batch:
    """n sentences, all of `length` words if it is given."""
    lengths_C = draw_from_cdf(trf.pi.cumsum(0).cpu(), n, rng) if length is None else torch.full((n,), length)
    target = FixedLength(trf)
    chains = Chains.at(draw_sentences_of(proposal, lengths_C.to(trf.zeta.device), rng), target)
    for _ in range(burn_in):
        chains, _ = block_gibbs(rng, chains, target, proposal, config.block, config.trials)
    return chains.batch


class FixedLength:
    """log p_l(x) up to a constant: while the length is fixed it is phi alone."""

    def __init__(self, trf: TRF) -> None:
        self.trf = trf

    def log_density(self, batch: Batch) -> Tensor:
        return self.trf.phi(batch)
