"""What every language model offers. Evaluation and the command line know nothing else of a model.

Shapes: B sentences, N words in all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from trflm.text import Batch, Vocab


@dataclass(frozen=True)
class Explanation:
    """log_prob of each sentence, split over its words: `batch.sum_words(word_N) + rest_B == log_prob`.

    For an n-gram or LSTM `word_N` is log p(word | words before) and `rest_B` the end token's; for a random field
    `word_N` is what each position adds to phi and `rest_B` is log pi_l - log Z_l.
    """

    batch: Batch
    word_N: Tensor
    rest_B: Tensor


class LanguageModel(Protocol):
    """A model of whole sentences over a vocabulary."""

    vocab: Vocab

    def log_prob(self, sentences: Batch | Sequence[str]) -> Tensor:
        """[B] natural log probability of each sentence, words outside the vocabulary taken as `<unk>`."""
        ...

    def explain(self, sentences: Batch | Sequence[str]) -> Explanation:
        """log_prob, split over the words."""
        ...

    def sample(self, n: int, *, seed: int = 1, length: int | None = None) -> list[str]:
        """n independent sentences, all of `length` words if it is given; the same seed gives the same sentences."""
        ...

    def n_parameters(self) -> int:
        """How many numbers the model stores (the #param column of the paper's table)."""
        ...
