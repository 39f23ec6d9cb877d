"""The reference distribution of a random field: a Kneser-Ney model of the training text (see `potentials.tilted`)."""

from dataclasses import dataclass
from typing import Annotated

from trflm.lms.ngram import KneserNeyConfig, NGram, kneser_ney
from trflm.ranges import Amount, Range
from trflm.text import Text, Vocab


@dataclass(frozen=True)
class ReferenceConfig:
    """[reference]: the model that a random field tilts, p_ref(x) exp(phi(x)); a Kneser-Ney model of the training text."""

    order: Annotated[int, Range(0, 20)] = 0  # 0: none; 1: unigram; 5: the usual
    folds: Amount = 0  # of deleted estimates in training by nce and dnce (see learning/deleted.py); 0: none

    def __post_init__(self) -> None:
        if self.order < 0:
            raise ValueError("order must not be negative; 0 is no reference")
        if self.folds < 0 or self.folds == 1 or (self.folds and not self.order):
            raise ValueError("folds must be 0, or at least 2 with an order of at least 1")

    def build(self, vocab: Vocab, text: Text) -> NGram | None:
        return kneser_ney(text, vocab, KneserNeyConfig(order=self.order)) if self.order else None
