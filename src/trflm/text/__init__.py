"""Text in: vocabulary, packed batches, length distributions."""

from trflm.text.batch import Batch, pack
from trflm.text.corpus import Corpus, read_corpus
from trflm.text.lengths import empirical_pi, shares, training_pi0
from trflm.text.packed import PackedText, Text
from trflm.text.vocab import UNK, Vocab

__all__ = [
    "UNK", "Batch", "Corpus", "PackedText", "Text", "Vocab", "empirical_pi", "pack", "read_corpus", "shares", "training_pi0",
]  # fmt: skip
