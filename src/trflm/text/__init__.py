"""Text in: vocabulary, packed batches, length distributions."""

from trflm.text.batch import Batch, pack
from trflm.text.corpus import Corpus, read_corpus
from trflm.text.lengths import empirical_pi, training_pi0
from trflm.text.vocab import UNK, Vocab

__all__ = ["UNK", "Batch", "Corpus", "Vocab", "empirical_pi", "pack", "read_corpus", "training_pi0"]
