"""Noise for NCE: a distribution q(l, x) over sentences that can be drawn from, with one density for data and noise alike.

`Unigram` is one. Others are made here: an n-gram or LSTM model as it is, or the LSTM of the proposal with lengths from pi,
which may go on learning (dynamic NCE). A new kind of noise is a configuration here, and a name in `NOISES`.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from trflm.errors import InputError
from trflm.kinds import PathName
from trflm.language_model import LanguageModel
from trflm.lms.lstm import LSTM
from trflm.lms.ngram import NGram
from trflm.lms.proposals.lstm import LSTMProposal
from trflm.lms.proposals.protocol import draw_sentences_of
from trflm.lms.unigram import Unigram
from trflm.ranges import NGramOrder
from trflm.text import Batch, Vocab
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


class NoiseContext(Protocol):
    """What noise is built from."""

    @property
    def vocab(self) -> Vocab: ...

    @property
    def unigram(self) -> Unigram: ...

    def ngram(self, order: int) -> NGram:
        """A Kneser-Ney model of the training text."""
        ...

    def load(self, path: str) -> LanguageModel:
        """A model that was trained before."""
        ...


class NoiseConfig(Protocol):
    """The section [noise]: a frozen dataclass, named in `NOISES`."""

    @property
    def kind(self) -> str: ...

    def build(self, context: NoiseContext) -> Noise: ...


@dataclass(frozen=True)
class UnigramNoise:
    """[noise] kind = "unigram": words drawn independently, lengths from pi."""

    kind: Literal["unigram"] = "unigram"

    def build(self, context: NoiseContext) -> Noise:
        return context.unigram


@dataclass(frozen=True)
class NGramNoise:
    """[noise] kind = "ngram": a Kneser-Ney model of the training text."""

    kind: Literal["ngram"] = "ngram"
    order: NGramOrder = 5  # words of the longest n-grams

    def __post_init__(self) -> None:
        if self.order < 1:
            raise ValueError("order must be at least 1")

    def build(self, context: NoiseContext) -> Noise:
        return ModelNoise(context.ngram(self.order))


@dataclass(frozen=True)
class TrainedNoise:
    """[noise] kind = "trained": an n-gram or LSTM model that was trained before, on the same vocabulary."""

    kind: Literal["trained"] = "trained"
    model: PathName = ""  # its run directory, or an ARPA file

    def __post_init__(self) -> None:
        if not self.model:
            raise ValueError('model is missing: give the run of an n-gram or LSTM model, as in model = "runs/lstm-200"')

    def build(self, context: NoiseContext) -> Noise:
        model = context.load(self.model)
        if not isinstance(model, NGram | LSTM):
            raise InputError(f"noise.model = {self.model!r}: give the run of an n-gram or LSTM model")
        if model.vocab.words != context.vocab.words:
            raise InputError(f"noise.model = {self.model!r}: has another vocabulary than this run; train it on this text")
        return ModelNoise(model)


NOISES = (UnigramNoise, NGramNoise, TrainedNoise)
