"""The simplest language model: q(l, x) = pi_l * prod_i q(x_i), words drawn independently. A noise source for NCE.

Shapes: B sentences, N words in all, V words in the vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from trflm.language_model import Explanation
from trflm.text import Batch, Vocab
from trflm.text.lengths import PI_FLOOR


class Unigram:
    """Word frequencies with add-one smoothing, and a length distribution."""

    def __init__(self, vocab: Vocab, pi: Tensor, log_word_V: Tensor) -> None:
        self.vocab = vocab
        self.pi = pi.double()
        self.log_word_V = log_word_V.double()
        self._length_cdf = self.pi.cumsum(0)
        self._word_cdf = self.log_word_V.exp().cumsum(0)

    @classmethod
    def estimate(cls, vocab: Vocab, text: Batch, pi: Tensor) -> "Unigram":
        counts_V = torch.bincount(text.ids_N, minlength=len(vocab)).double() + 1
        return cls(vocab, pi, (counts_V / counts_V.sum()).log())

    def log_prob(self, sentences: Batch | Sequence[str]) -> Tensor:
        explanation = self.explain(sentences)
        return explanation.batch.sum_words(explanation.word_N) + explanation.rest_B

    def explain(self, sentences: Batch | Sequence[str]) -> Explanation:
        batch = self.vocab.batch(sentences)
        pi_B = torch.where(batch.lengths_B < len(self.pi), self.pi[batch.lengths_B.clamp(max=len(self.pi) - 1)], 0.0)
        return Explanation(batch, self.log_word_V[batch.ids_N], pi_B.clamp(min=PI_FLOOR).log())

    def n_parameters(self) -> int:
        return len(self.log_word_V)

    def draw(self, n: int, rng: torch.Generator) -> Batch:
        """n sentences, all at once."""
        lengths_B = draw_from_cdf(self._length_cdf, n, rng)
        return Batch(draw_from_cdf(self._word_cdf, int(lengths_B.sum()), rng), lengths_B)


def draw_from_cdf(cdf: Tensor, n: int, rng: torch.Generator) -> Tensor:
    """n independent indices with P(i) = cdf[i] - cdf[i-1]; never an index of probability 0."""
    uniform_n = torch.rand(n, generator=rng, dtype=torch.float64) * cdf[-1]
    return torch.searchsorted(cdf, uniform_n, right=True).clamp(max=len(cdf) - 1)
