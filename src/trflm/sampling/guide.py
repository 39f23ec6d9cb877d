"""What a potential says of a sentence before it is whole: guesses that steer sequential Monte Carlo (`smc`).

A guide reads prefixes word by word and gives what of phi is known so far. After t words that covers about t - lag words: a
CNN's position is known when the last word of its window is. Any guess leaves the estimates unbiased; a good one makes them
narrow.

Shapes: P particles, t words so far.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from trflm.lms.ngram import NGram
from trflm.lms.proposals.ngram import NGramProposal
from trflm.potentials.blstm import BLSTM, Embedding
from trflm.potentials.cnn.model import CNN
from trflm.potentials.mixed import Mixed
from trflm.potentials.protocol import Potential
from trflm.potentials.tilted import Tilted
from trflm.sampling.blstm_guide import BLSTMGuide
from trflm.sampling.cnn_guide import CNNGuide
from trflm.sampling.estimator import same_length


class Guide(Protocol):
    lag: int

    def start(self, n: int) -> Any:
        """Before the first word of n prefixes: something with `select(index)`."""
        ...

    def step(self, state: Any, words_Pt: Tensor) -> tuple[Any, Tensor]:
        """One word more: `words_Pt` are all words up to it. (The state after it, [P] what is known of phi, float64.)"""
        ...


def guide_of(potential: Potential) -> Guide:
    """The guide for a potential: of its own if it has one, else phi of the prefix taken as a sentence."""
    match potential:
        case CNN():
            return CNNGuide(potential)
        case BLSTM() if isinstance(potential.inputs, Embedding):
            return BLSTMGuide(potential)
        case Tilted() if isinstance(potential.reference, NGram):
            parts = [NGramGuide(potential.reference), guide_of(potential.potential)]
            return SumGuide(parts, [float(potential.share), float(potential.factor)])
        case Mixed():
            return SumGuide([guide_of(part) for part in potential.parts], [1.0] * len(potential.parts))
        case _:
            return WholeGuide(potential)


@dataclass(frozen=True)
class Nothing:
    """Nothing is remembered."""

    def select(self, index: Tensor) -> "Nothing":
        return self


class WholeGuide:
    """phi of the prefix, as if the sentence ended there. Every prefix is computed from its beginning."""

    lag = 0

    def __init__(self, potential: Potential) -> None:
        self.potential = potential

    def start(self, n: int) -> Nothing:
        return Nothing()

    @torch.no_grad()
    def step(self, state: Nothing, words_Pt: Tensor) -> tuple[Nothing, Tensor]:
        return state, self.potential.score(same_length(words_Pt)).double()


@dataclass(frozen=True)
class SumState:
    states: list[Any]

    def select(self, index: Tensor) -> "SumState":
        return SumState([state.select(index) for state in self.states])


class SumGuide:
    """The sum of several, each times its factor. It counts as knowing what the quickest of them knows."""

    def __init__(self, guides: list[Guide], factors: list[float]) -> None:
        self.guides, self.factors = guides, factors
        self.lag = min(guide.lag for guide in guides)

    def start(self, n: int) -> SumState:
        return SumState([guide.start(n) for guide in self.guides])

    def step(self, state: SumState, words_Pt: Tensor) -> tuple[SumState, Tensor]:
        both = [guide.step(part, words_Pt) for guide, part in zip(self.guides, state.states, strict=True)]
        known = [factor * known_P for factor, (_, known_P) in zip(self.factors, both, strict=True)]
        return SumState([part for part, _ in both]), torch.stack(known).sum(0)


@dataclass(frozen=True)
class NGramGuideState:
    context: Any
    known_P: Tensor

    def select(self, index: Tensor) -> "NGramGuideState":
        return NGramGuideState(self.context.select(index), self.known_P[index])


class NGramGuide:
    """log g(x_1..t) of an n-gram model, words only."""

    lag = 0

    def __init__(self, ngram: NGram) -> None:
        self.proposal = NGramProposal(ngram)

    def start(self, n: int) -> NGramGuideState:
        return NGramGuideState(self.proposal.start(n), torch.zeros(n, dtype=torch.float64))

    def step(self, state: NGramGuideState, words_Pt: Tensor) -> tuple[NGramGuideState, Tensor]:
        one_P = torch.ones_like(words_Pt[:, 0])
        span = self.proposal.propose(torch.Generator(), state.context, words_Pt[:, -1:, None], one_P, one_P)
        known_P = state.known_P + span.log_q_CM[:, 0]
        return NGramGuideState(span.state_after(torch.zeros_like(one_P)), known_P), known_P
