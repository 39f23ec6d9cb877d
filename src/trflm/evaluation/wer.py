"""Word error rate with its counts: WER = (S + D + I) / reference words, per utterance and in all.

Shapes: U utterances.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trflm.errors import InputError
from trflm.evaluation.alignment import Alignment, align
from trflm.evaluation.transcripts import match_utterances


@dataclass(frozen=True, eq=False)
class WordErrors:
    """How one system's output differs from the references, utterance by utterance, in the order of the references."""

    utterances: tuple[str, ...]
    alignments: tuple[Alignment, ...]

    @cached_property
    def words_U(self) -> np.ndarray:
        """Reference words."""
        return np.array([len(alignment.reference) for alignment in self.alignments])

    @cached_property
    def substitutions_U(self) -> np.ndarray:
        return np.array([alignment.substitutions for alignment in self.alignments])

    @cached_property
    def deletions_U(self) -> np.ndarray:
        return np.array([alignment.deletions for alignment in self.alignments])

    @cached_property
    def insertions_U(self) -> np.ndarray:
        return np.array([alignment.insertions for alignment in self.alignments])

    @cached_property
    def errors_U(self) -> np.ndarray:
        return self.substitutions_U + self.deletions_U + self.insertions_U

    @property
    def words(self) -> int:
        return int(self.words_U.sum())

    @property
    def errors(self) -> int:
        return int(self.errors_U.sum())

    @property
    def rate(self) -> float:
        """WER, 0.2 for 20 %."""
        return self.errors / self.words

    @property
    def sentence_rate(self) -> float:
        """The share of utterances with at least one error."""
        return float((self.errors_U > 0).mean())


def word_error_rate(
    hypotheses: Mapping[str, str],
    references: Mapping[str, str],
    hyp_file: str = "the hypotheses",
    ref_file: str = "the references",
) -> WordErrors:
    """Align every hypothesis with its reference. An utterance that only one side has is an InputError."""
    match_utterances(hypotheses, references, hyp_file, ref_file)
    result = WordErrors(
        tuple(references), tuple(align(words, hypotheses[utterance]) for utterance, words in references.items())
    )
    if result.words == 0:
        raise InputError(f"{ref_file}: the references have no words; a rate needs at least one")
    return result
