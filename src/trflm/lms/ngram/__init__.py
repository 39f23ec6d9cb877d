"""N-gram models: estimation, scores, samples and ARPA files."""

from trflm.lms.ngram.arpa import read_arpa, write_arpa
from trflm.lms.ngram.estimate import KneserNeyConfig, kneser_ney
from trflm.lms.ngram.model import NGram

__all__ = ["KneserNeyConfig", "NGram", "kneser_ney", "read_arpa", "write_arpa"]
