"""Noise for NCE: a distribution q(l, x) over sentences that can be drawn from, with one density for data and noise alike.

`Unigram` is one. Others are made here: an n-gram or LSTM model as it is, or the LSTM of the proposal with lengths from pi,
which may go on learning (dynamic NCE).
"""

from typing import Protocol

import torch
from torch import Tensor

from trflm.lms.lstm import LSTM
from trflm.lms.ngram import NGram
from trflm.lms.proposals.lstm import LSTMProposal
from trflm.lms.proposals.protocol import draw_sentences_of
from trflm.text import Batch
from trflm.text.lengths import draw_from_cdf


class Noise(Protocol):
    """q(l, x), of sentences with at least one word; it sums to one over them."""

    def draw(self, n: int, rng: torch.Generator) -> Batch:
        """n independent sentences."""
        ...

    def log_prob(self, batch: Batch, /) -> Tensor:
        """[B] log q(l, x), without gradient."""
        ...


class ModelNoise:
    """A left-to-right model, given that there is a word at all: q(x) = p(x) / (1 - p(no words))."""

    def __init__(self, model: NGram | LSTM) -> None:
        self.model = model
        self.log_not_empty = model.log_not_empty()

    def draw(self, n: int, rng: torch.Generator) -> Batch:
        return self.model.draw(n, rng)

    def log_prob(self, batch: Batch) -> Tensor:
        return self.model.log_prob(batch).double() - self.log_not_empty


class ProposalNoise:
    """q(l, x) = pi_l prod_i q(x_i | x_<i), the words from the LSTM that also proposes to the sampler."""

    def __init__(self, proposal: LSTMProposal, pi: Tensor) -> None:
        self.proposal, self.pi = proposal, pi

    def draw(self, n: int, rng: torch.Generator) -> Batch:
        lengths_B = draw_from_cdf(self.pi.cumsum(0).cpu(), n, rng).to(self.pi.device)
        return draw_sentences_of(self.proposal, lengths_B, rng)

    def log_prob(self, batch: Batch) -> Tensor:
        with torch.no_grad():
            return self.pi[batch.lengths_B].log() + self.proposal.log_q(batch)
