"""A word error rate as reports show it: the counts it rests on, and how sure it is."""

from dataclasses import dataclass

from trflm.evaluation.significance import Interval, bootstrap_interval
from trflm.evaluation.wer import WordErrors


@dataclass(frozen=True)
class Figures:
    """WER = errors / words, with its bootstrap interval."""

    wer: float
    errors: int
    words: int  # of the references
    substitutions: int
    deletions: int
    insertions: int
    utterances: int
    sentence_error_rate: float
    interval: Interval


def figures(errors: WordErrors, seed: int = 0, resamples: int = 10_000) -> Figures:
    """The figures of one system's output."""
    return Figures(
        wer=errors.rate,
        errors=errors.errors,
        words=errors.words,
        substitutions=int(errors.substitutions_U.sum()),
        deletions=int(errors.deletions_U.sum()),
        insertions=int(errors.insertions_U.sum()),
        utterances=len(errors.utterances),
        sentence_error_rate=errors.sentence_rate,
        interval=bootstrap_interval(errors, seed, resamples),
    )
