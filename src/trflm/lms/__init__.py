"""Directed models and what they serve as: baselines, noise, proposals, references. A new baseline is a line here."""

from trflm.lms.lstm import LSTMConfig
from trflm.lms.ngram import KneserNeyConfig

DIRECTED = (
    LSTMConfig,
    KneserNeyConfig,
)
