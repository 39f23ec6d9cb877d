"""Deleted estimates of a reference: in training, a sentence is scored by a model that has not seen it.

An n-gram model is far too sure of the text it was estimated from (Kneser-Ney of order 5 on the Penn Treebank: perplexity 7.8
there, 148 on dev text). Trained beside it, phi would learn to take that back. So the training text is dealt into folds, and for
a sentence of fold f, and for what is made of it by replacing words, phi is trained as if the reference were the model of all
other folds:

    log p_ref(x)  becomes  log p_ref^(-f)(x)

With more and more text the two become one. Where the noise is the reference itself, none of this is needed: both stand in the
ratio, and cancel.

Shapes: B sentences.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from trflm.language_model import LanguageModel
from trflm.lms.ngram import KneserNeyConfig, kneser_ney
from trflm.text import Batch, Vocab


class DeletedReference:
    """`without[f]` is estimated like the reference, from the sentences of all folds but f; sentence i is in fold i mod F."""

    def __init__(self, reference: LanguageModel, without: Sequence[LanguageModel]) -> None:
        self.reference, self.without = reference, without

    @classmethod
    def estimate(cls, reference: LanguageModel, text: Batch, vocab: Vocab, order: int, folds: int) -> "DeletedReference":
        fold_B = torch.arange(len(text)) % folds
        others = [text.select((fold_B != f).nonzero().squeeze(1)) for f in range(folds)]
        return cls(reference, [kneser_ney(other, vocab, KneserNeyConfig(order=order)) for other in others])

    def fold(self, index_B: Tensor) -> Tensor:
        """[B] of these sentences of the training text."""
        return index_B % len(self.without)

    def correction(self, batch: Batch, fold_B: Tensor) -> Tensor:
        """[B] log p_ref^(-f)(x) - log p_ref(x), float64; f need not be the fold of x, if x is made of a sentence of it."""
        deleted_B = torch.empty(len(batch), dtype=torch.float64, device=batch.device)
        for f in torch.unique(fold_B).tolist():
            index = (fold_B == f).nonzero().squeeze(1)
            deleted_B[index] = self.without[f].log_prob(batch.select(index)).double()
        return deleted_B - self.reference.log_prob(batch).double()
