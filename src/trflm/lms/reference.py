"""The reference distribution of a random field: a Kneser-Ney model of the training text (see `potentials.tilted`)."""

from dataclasses import dataclass

from trflm.lms.ngram import KneserNeyConfig, NGram, kneser_ney
from trflm.text import Batch, Vocab


@dataclass(frozen=True)
class ReferenceConfig:
    """[reference]: the model that a random field tilts, p_ref(x) exp(phi(x)); a Kneser-Ney model of the training text."""

    order: int = 0  # 0: none; 1: unigram; 5: the usual
    folds: int = 0  # of deleted estimates in training by nce and dnce (see learning/deleted.py); 0: none

    def __post_init__(self) -> None:
        if self.order < 0:
            raise ValueError("order must not be negative; 0 is no reference")
        if self.folds < 0 or self.folds == 1 or (self.folds and not self.order):
            raise ValueError("folds must be 0, or at least 2 with an order of at least 1")

    def build(self, vocab: Vocab, text: Batch) -> NGram | None:
        return kneser_ney(text, vocab, KneserNeyConfig(order=self.order)) if self.order else None
