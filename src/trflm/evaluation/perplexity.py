"""Perplexity of a normalised, left-to-right model: exp(-log p(text) / (words + sentences)), the ends of sentences counted."""

import math
from dataclasses import dataclass

from trflm.language_model import LanguageModel
from trflm.text import Batch


@dataclass(frozen=True)
class Perplexity:
    """How well a model predicts a text."""

    log_prob: float  # natural log, of the whole text
    sentences: int
    words: int

    @property
    def perplexity(self) -> float:
        return math.exp(-self.log_prob / (self.words + self.sentences)) if self.log_prob > -math.inf else math.inf


def perplexity(lm: LanguageModel, text: Batch) -> Perplexity:
    """Measured on all sentences at once, so that a model which reads them as one text can."""
    return Perplexity(float(lm.log_prob(text).double().sum()), len(text), text.n_words)
