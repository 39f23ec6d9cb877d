"""Word alignment: how a hypothesis differs from its reference, place by place, and fast distances of whole lists.

Minimum edit distance with unit costs: S + D + I words are wrong, and among alignments with as few errors the one with the
most words right counts, which is how NIST's sclite divides errors into S, D and I. Words are compared as they are written.

A table of all costs is as large as the reference times the hypothesis. Where that is much, only one row is kept, with the place
where the path to each of its cells crosses the middle (Hirschberg 1975), and the two halves are aligned by themselves.

Shapes: R words of the reference, L of the hypothesis.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from trflm.evaluation.nbest import NBest

# An error costs INDEL; a substitution a trifle more, so that of equally short alignments the one with fewer is taken.
INDEL = 1 << 20
SUBSTITUTION = INDEL + 1
MOST_CELLS = 40_000  # of a table that is kept whole
Move = Literal["both", "inserted", "deleted"]  # a word on each side, or on one alone


@dataclass(frozen=True)
class Alignment:
    """A hypothesis laid along its reference of R words: a place for each word and a gap before each and at the end."""

    reference: tuple[str, ...]
    heard: tuple[str | None, ...]  # [R] what stands at each reference word, None where it was left out
    inserted: tuple[tuple[str, ...], ...]  # [R + 1] what stands in the gap before each word, and after the last

    @property
    def substitutions(self) -> int:
        return sum(heard is not None and heard != word for word, heard in zip(self.reference, self.heard, strict=True))

    @property
    def deletions(self) -> int:
        return self.heard.count(None)

    @property
    def insertions(self) -> int:
        return sum(map(len, self.inserted))


def align(reference: str, hypothesis: str) -> Alignment:
    """The alignment of fewest errors, among those the one with most words right."""
    words, said = reference.split(), hypothesis.split()
    heard: list[str | None] = []
    inserted: list[list[str]] = [[]]
    following = iter(said)
    for move in _path(words, said):
        if move == "inserted":
            inserted[-1].append(next(following))
        else:
            heard.append(next(following) if move == "both" else None)
            inserted.append([])
    return Alignment(tuple(words), tuple(heard), tuple(map(tuple, inserted)))


def _path(words: list[str], said: list[str]) -> list[Move]:
    """The moves from the first words to the last, along a path of least cost."""
    if len(words) < 2 or len(words) * len(said) <= MOST_CELLS:
        return _traced(words, said)
    middle = len(words) // 2
    place = _crossing(words, said, middle)
    return _path(words[:middle], said[:place]) + _path(words[middle:], said[place:])


def _traced(words: list[str], said: list[str]) -> list[Move]:
    """From the end: a pair of words where that costs least, else a word put in, else one left out."""
    cost = _costs(words, said)
    moves: list[Move] = []
    i, j = len(words), len(said)
    while i or j:
        if i and j and cost[i][j] == cost[i - 1][j - 1] + (0 if words[i - 1] == said[j - 1] else SUBSTITUTION):
            i, j = i - 1, j - 1
            moves.append("both")
        elif j and cost[i][j] == cost[i][j - 1] + INDEL:
            j -= 1
            moves.append("inserted")
        else:
            i -= 1
            moves.append("deleted")
    return moves[::-1]


def _crossing(words: list[str], said: list[str], middle: int) -> int:
    """How many heard words the path that `_traced` would take has passed when it leaves row `middle` for good."""
    number: dict[str, int] = {}
    said_L = np.array([number.setdefault(word, len(number)) for word in said], np.int64)
    place_L1 = np.arange(len(said) + 1)
    cost_L1, crossing_L1 = place_L1 * INDEL, place_L1
    for i, word in enumerate((number.get(word, -1) for word in words), 1):
        corner_L = cost_L1[:-1] + np.where(said_L == word, 0, SUBSTITUTION)
        from_above_L1 = cost_L1 + INDEL
        from_above_L1[1:] = np.minimum(from_above_L1[1:], corner_L)
        # the least over all places where the row was entered, then words put in up to here
        new_L1 = np.minimum.accumulate(from_above_L1 - place_L1 * INDEL) + place_L1 * INDEL
        if i <= middle:
            cost_L1 = new_L1
            continue
        is_pair_L1 = np.concatenate([[False], new_L1[1:] == corner_L])
        is_inserted_L1 = np.concatenate([[False], new_L1[1:] == new_L1[:-1] + INDEL]) & ~is_pair_L1
        above_L1 = np.where(is_pair_L1, np.concatenate([[0], crossing_L1[:-1]]), crossing_L1)
        entered_L1 = np.maximum.accumulate(np.where(is_inserted_L1, 0, place_L1))  # where the run of words put in began
        cost_L1, crossing_L1 = new_L1, above_L1[entered_L1]
    return int(crossing_L1[-1])


def _costs(words: list[str], said: list[str]) -> list[list[int]]:
    """[R + 1][L + 1] least cost of turning the first i reference words into the first j heard ones."""
    table = [[j * INDEL for j in range(len(said) + 1)]]
    for i, word in enumerate(words, 1):
        above, left = table[-1], i * INDEL
        row = [left]
        for j, other in enumerate(said):
            corner = above[j] if word == other else above[j] + SUBSTITUTION
            left = min(corner, above[j + 1] + INDEL, left + INDEL)
            row.append(left)
        table.append(row)
    return table


def word_errors(reference: str, hypotheses: Sequence[str]) -> np.ndarray:
    """[K] S + D + I of each hypothesis against one reference."""
    number: dict[str, int] = {}
    ids = [[number.setdefault(word, len(number)) for word in text.split()] for text in [reference, *hypotheses]]
    lengths = np.array([len(row) for row in ids])
    return _distances(np.array([i for row in ids for i in row], np.int64), lengths)


def nbest_errors(nbest: NBest, references: Mapping[str, str]) -> np.ndarray:
    """[H] S + D + I of every hypothesis against the reference of its utterance."""
    number = {word: index for index, word in enumerate(nbest.words)}
    errors = []
    for u, utterance in enumerate(nbest.utterances):
        start, end = nbest.hyp_starts_U1[u : u + 2]
        ids = nbest.ids_N[nbest.word_starts_H1[start] : nbest.word_starts_H1[end]]
        reference = [number.setdefault(word, len(number)) for word in references[utterance].split()]
        lengths = np.concatenate([[len(reference)], nbest.lengths_H[start:end]])
        errors.append(_distances(np.concatenate([np.array(reference, np.int64), ids]), lengths))
    return np.concatenate(errors)


def _distances(ids_N: np.ndarray, lengths_K1: np.ndarray) -> np.ndarray:
    """Distances of the first row to all others. Words become characters, because strings are compared fastest."""
    _, small_N = np.unique(ids_N, return_inverse=True)
    characters = small_N.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
    ends = np.cumsum(lengths_K1).tolist()
    rows = [characters[end - length : end] for end, length in zip(ends, lengths_K1.tolist(), strict=True)]
    return cdist(rows[:1], rows[1:], scorer=Levenshtein.distance, dtype=np.int32)[0]
