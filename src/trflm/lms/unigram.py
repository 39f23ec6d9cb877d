"""The simplest language model: q(l, x) = pi_l * prod_i q(x_i), words drawn independently. Noise for NCE, and a proposal.

Shapes: B sentences, N words in all, V words in the vocabulary; C chains, M trials, s words a span.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trflm.language_model import Directed, Explanation
from trflm.lms.proposals.protocol import DRAW, Span
from trflm.text import Batch, Text, Vocab
from trflm.text.lengths import PI_FLOOR, draw_from_cdf


class Unigram(Directed):
    """Word frequencies with add-one smoothing, and a length distribution."""

    def __init__(self, vocab: Vocab, pi: Tensor, log_word_V: Tensor) -> None:
        self.vocab = vocab
        self.pi = pi.double()
        self.log_word_V = log_word_V.double()
        self._length_cdf = self.pi.cumsum(0)
        self._word_cdf = self.log_word_V.exp().cumsum(0)

    @classmethod
    def estimate(cls, vocab: Vocab, text: Text, pi: Tensor) -> "Unigram":
        counts_V = text.word_counts(len(vocab)).double() + 1
        return cls(vocab, pi, (counts_V / counts_V.sum()).log())

    def explain(self, sentences: Batch | Sequence[str]) -> Explanation:
        batch = self.vocab.batch(sentences)
        pi = self.pi.to(batch.device)
        pi_B = torch.where(batch.lengths_B < len(pi), pi[batch.lengths_B.clamp(max=len(pi) - 1)], 0.0)
        return Explanation(batch, self.log_word_V.to(batch.device)[batch.ids_N], pi_B.clamp(min=PI_FLOOR).log())

    def n_parameters(self) -> int:
        return len(self.log_word_V)

    def to_state(self) -> dict[str, Any]:
        return {"unigram": self.log_word_V}

    def start(self, n: int) -> "NoState":
        return NoState()

    def after(self, prefix: Batch, length_C: Tensor) -> "NoState":
        return NoState()

    def propose(self, rng: torch.Generator, state: "NoState", given_CMs: Tensor, span_C: Tensor, remaining_C: Tensor) -> Span:
        drawn = draw_from_cdf(self._word_cdf, given_CMs.numel(), rng).view(given_CMs.shape).to(given_CMs.device)
        inside_C1s = torch.arange(given_CMs.shape[2], device=span_C.device) < span_C[:, None, None]
        words_CMs = torch.where(given_CMs == DRAW, drawn, given_CMs) * inside_C1s
        log_q_CM = (self.log_word_V.to(words_CMs.device)[words_CMs] * inside_C1s).sum(2)
        return Span(words_CMs, log_q_CM, NoState(), torch.zeros_like(words_CMs[:, :, 0]))

    def log_q(self, batch: Batch) -> Tensor:
        return batch.sum_words(self.log_word_V.to(batch.device)[batch.ids_N])

    def draw_some(self, n: int, rng: torch.Generator, length: int | None, burn_in: int) -> Batch:
        return self.draw(n, rng, None if length is None else torch.full((n,), length))

    def draw(self, n: int, rng: torch.Generator, lengths_B: Tensor | None = None) -> Batch:
        """n sentences, all at once; of these lengths if they are given."""
        if lengths_B is None:
            lengths_B = draw_from_cdf(self._length_cdf, n, rng)
        return Batch(draw_from_cdf(self._word_cdf, int(lengths_B.sum()), rng), lengths_B)


class NoState:
    """Independent words remember nothing of those before."""

    def select(self, index: Tensor) -> "NoState":
        return self
