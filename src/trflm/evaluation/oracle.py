"""The oracle: the fewest errors any choice from the first d hypotheses could make. No rescoring can do better."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trflm.errors import InputError
from trflm.evaluation.alignment import word_errors
from trflm.evaluation.nbest import NBestList
from trflm.evaluation.transcripts import match_utterances

DEPTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True)
class Oracle:
    words: int
    errors: dict[int, int]  # depth -> fewest errors

    @property
    def rates(self) -> dict[int, float]:
        """depth -> oracle WER."""
        return {depth: errors / self.words for depth, errors in self.errors.items()}


def oracle(
    lists: Iterable[NBestList],
    references: Mapping[str, str],
    depths: Sequence[int] = DEPTHS,
    nbest_file: str = "the n-best lists",
) -> Oracle:
    """Read the lists once, one utterance at a time. Depths beyond the longest list are left out."""
    totals = np.zeros(len(depths), np.int64)
    words = deepest = 0
    seen = []
    for nbest in lists:
        reference = references.get(nbest.utterance)
        if reference is None:
            raise InputError(f'{nbest_file}: utterance "{nbest.utterance}" has no reference; add it or remove the list')
        fewest_K = np.minimum.accumulate(word_errors(reference, nbest.texts))
        totals += fewest_K[np.minimum(depths, len(nbest)) - 1]
        words += len(reference.split())
        deepest = max(deepest, len(nbest))
        seen.append(nbest.utterance)
    match_utterances(seen, references, nbest_file, "the references")
    last = next((depth for depth in depths if depth >= deepest), max(depths))
    return Oracle(words, {depth: int(total) for depth, total in zip(depths, totals, strict=True) if depth <= last})
