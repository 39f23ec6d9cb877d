"""A language model small enough to check by hand."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from trflm.language_model import Directed, Explanation
from trflm.text import UNK, Batch, Vocab


class UnigramLM(Directed):
    """log p(sentence) = sum of the words' scores; remembers how many sentences it was asked for."""

    def __init__(self, scores: Mapping[str, float], unknown: float = -1.0) -> None:
        self.vocab = Vocab([UNK, *scores])
        self.score_V = torch.tensor([unknown, *scores.values()], dtype=torch.float64)
        self.asked: list[int] = []

    def log_prob(self, sentences: Batch | Sequence[str]) -> Tensor:
        batch = self.vocab.batch(sentences)
        self.asked.append(len(batch))
        return batch.sum_words(self.score_V[batch.ids_N])

    def explain(self, sentences: Batch | Sequence[str]) -> Explanation:
        batch = self.vocab.batch(sentences)
        return Explanation(batch, self.score_V[batch.ids_N], torch.zeros(len(batch), dtype=torch.float64))

    def sample(self, n: int, *, seed: int = 1, length: int | None = None, burn_in: int = 50) -> list[str]:
        return [self.vocab.words[-1]] * n

    def n_parameters(self) -> int:
        return len(self.score_V)
