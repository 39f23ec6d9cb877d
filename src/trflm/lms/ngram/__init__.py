"""N-gram models: estimation, scores, samples and ARPA files."""

from trflm.lms.ngram.estimate import KneserNeyConfig, kneser_ney
from trflm.lms.ngram.model import NGram

__all__ = ["KneserNeyConfig", "NGram", "kneser_ney"]
