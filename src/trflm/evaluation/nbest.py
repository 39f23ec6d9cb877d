"""N-best lists: what a recogniser thought was said, best guess first, with its scores.

One utterance at a time while reading and writing (`NBestList`), so a million hypotheses pass through in little memory;
all of them in flat arrays, at 4 bytes a word, for rescoring and tuning (`NBest`). Scores are natural logs, higher is better.

Shapes: U utterances, H hypotheses in all, N words in all, K hypotheses of one utterance.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from trflm.errors import InputError

ACOUSTIC = "acoustic"  # the name of the recogniser's own score in every list
LM = "lm"  # the name of the first pass's language model score, where there is one

# Combined scores that differ by less are equal, and the first hypothesis wins: two that only differ in words unknown to a model
# have the same score but for rounding, which depends on the machine.
TIE = 1e-4


def check_acoustic(scores: Mapping[str, np.ndarray], lists: str) -> None:
    """Lists may have no scores at all, and language models decide alone; but if they have some, the recogniser's is known."""
    if scores and ACOUSTIC not in scores:
        raise InputError(
            f"{lists} the scores {', '.join(scores)}, and none is named {ACOUSTIC}; "
            f"say which one is the recogniser's: --{ACOUSTIC}-name NAME (or --{ACOUSTIC} FILE)"
        )


class Kind(StrEnum):
    """What may be wrong with an n-best list."""

    SYNTAX = "syntax"
    EMPTY = "empty"  # a list without hypotheses
    DUPLICATE = "duplicate"
    RANK = "rank"
    SCORE = "score"
    REPEATED = "repeated"  # the same words twice in a list: legal, but wasteful
    SIGN = "sign"  # costs taken for log probabilities, or the other way round: a suspicion


@dataclass(frozen=True)
class Finding:
    """One problem: where, what, and what to do about it."""

    kind: Kind
    where: str  # file:line
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


Report = Callable[[Finding], None]
"""What a reader does with a problem. If it returns, the reader leaves out the faulty line or hypothesis and goes on."""


def refuse(finding: Finding) -> None:
    """The strict way: the first problem ends the reading."""
    raise InputError(str(finding))


@dataclass(frozen=True)
class NBestList:
    """The hypotheses of one utterance, best first: words separated by one blank, scores by name, each [K]."""

    utterance: str
    texts: Sequence[str]
    scores: Mapping[str, np.ndarray]
    reference: str | None = None  # what was said, where the file tells

    def __len__(self) -> int:
        return len(self.texts)

    def to_record(self) -> dict[str, Any]:
        """As JSON Lines have it."""
        record: dict[str, Any] = {"utterance": self.utterance}
        if self.reference is not None:
            record["reference"] = self.reference
        columns = {name: values.tolist() for name, values in self.scores.items()}
        record["hypotheses"] = [
            {"text": text, "scores": {name: column[rank] for name, column in columns.items()}}
            for rank, text in enumerate(self.texts)
        ]
        return record

    def without_empty(self) -> "NBestList":
        """Hypotheses without words left out; the first one stays if there is no other, so that no utterance is lost."""
        keep = [rank for rank, text in enumerate(self.texts) if text] or [0]
        scores = {name: values[keep] for name, values in self.scores.items()}
        return NBestList(self.utterance, [self.texts[rank] for rank in keep], scores, self.reference)

    def negated(self, names: Iterable[str]) -> "NBestList":
        """These scores with the other sign: costs become log probabilities and back."""
        for name in names:
            if name not in self.scores:
                raise InputError(
                    f'utterance "{self.utterance}" has no score {name!r}; it has {", ".join(self.scores) or "none"}'
                )
        changed = {name: -self.scores[name] for name in names}
        return NBestList(self.utterance, self.texts, {**self.scores, **changed}, self.reference)


@dataclass(frozen=True, eq=False)
class NBest:
    """All lists of a set. Hypothesis h is the words `ids_N[word_starts_H1[h] : word_starts_H1[h + 1]]`;
    utterance u has the hypotheses `hyp_starts_U1[u]` up to `hyp_starts_U1[u + 1]`.
    """

    utterances: Sequence[str]
    words: list[str]  # every distinct word, by number
    ids_N: np.ndarray  # int32
    word_starts_H1: np.ndarray  # int64
    hyp_starts_U1: np.ndarray  # int64
    scores: Mapping[str, np.ndarray]  # each [H], float64
    references: Mapping[str, str]  # utterance -> what was said, where the file told

    @classmethod
    def collect(cls, lists: Iterable[NBestList]) -> "NBest":
        """Read everything. All lists must carry the same scores; there must be at least one list."""
        number: dict[str, int] = {}
        ids, word_starts, hyp_starts = array("i"), array("q", [0]), array("q", [0])
        utterances: list[str] = []
        columns: dict[str, array[float]] = {}
        references: dict[str, str] = {}
        for nbest in lists:
            if not utterances:
                columns = {name: array("d") for name in nbest.scores}
            elif columns.keys() != nbest.scores.keys():
                raise InputError(
                    f'utterance "{nbest.utterance}" has the scores {sorted(nbest.scores)}, but "{utterances[0]}" has '
                    f"{sorted(columns)}; give every utterance the same scores"
                )
            if not nbest.texts:
                raise InputError(f'utterance "{nbest.utterance}" has no hypotheses; leave it out')
            utterances.append(nbest.utterance)
            for text in nbest.texts:
                ids.extend([number.setdefault(word, len(number)) for word in text.split()])
                word_starts.append(len(ids))
            for name, column in columns.items():
                column.frombytes(np.asarray(nbest.scores[name], np.float64).tobytes())
            hyp_starts.append(len(word_starts) - 1)
            if nbest.reference is not None:
                references[nbest.utterance] = nbest.reference
        if not utterances:
            raise InputError("there is no n-best list to read")
        return cls(
            utterances,
            list(number),
            np.frombuffer(ids, np.int32),
            np.frombuffer(word_starts, np.int64),
            np.frombuffer(hyp_starts, np.int64),
            {name: np.frombuffer(column, np.float64) for name, column in columns.items()},
            references,
        )

    def __len__(self) -> int:
        return len(self.utterances)

    @property
    def n_hypotheses(self) -> int:
        return len(self.word_starts_H1) - 1

    @cached_property
    def acoustic_H(self) -> np.ndarray:
        """The recogniser's own score of each hypothesis; zeros where there are no scores."""
        return self.scores[ACOUSTIC] if ACOUSTIC in self.scores else np.zeros(self.n_hypotheses)

    @cached_property
    def lengths_H(self) -> np.ndarray:
        """Words of each hypothesis."""
        return np.diff(self.word_starts_H1)

    @cached_property
    def depths_U(self) -> np.ndarray:
        """Hypotheses of each utterance."""
        return np.diff(self.hyp_starts_U1)

    def text(self, hypothesis: int) -> str:
        """The words of hypothesis h, separated by one blank."""
        start, end = self.word_starts_H1[hypothesis : hypothesis + 2]
        return " ".join([self.words[number] for number in self.ids_N[start:end].tolist()])

    def texts(self) -> Iterator[str]:
        """Every hypothesis, in order."""
        return (self.text(hypothesis) for hypothesis in range(self.n_hypotheses))

    def best(self, score_H: np.ndarray, tie: float = 0.0) -> np.ndarray:
        """[U] the hypothesis of highest score of each utterance, the first of equals; scores that differ by no more than `tie`
        are equal."""
        starts_U = self.hyp_starts_U1[:-1]
        least_U = np.maximum.reduceat(score_H, starts_U) - tie
        winners = np.flatnonzero(score_H >= np.repeat(least_U, self.depths_U))
        return winners[np.searchsorted(winners, starts_U)]

    def transcripts(self, chosen_U: np.ndarray) -> dict[str, str]:
        """utterance -> the words of the chosen hypothesis."""
        return {utterance: self.text(int(h)) for utterance, h in zip(self.utterances, chosen_U, strict=True)}

    def first(self, depth: int) -> "NBest":
        """The first `depth` hypotheses of each list."""
        keep_H = np.arange(self.n_hypotheses) - np.repeat(self.hyp_starts_U1[:-1], self.depths_U) < depth
        lengths_K = self.lengths_H[keep_H]
        return NBest(
            self.utterances,
            self.words,
            self.ids_N[np.repeat(keep_H, self.lengths_H)],
            np.concatenate([[0], np.cumsum(lengths_K)]),
            np.concatenate([[0], np.cumsum(np.minimum(self.depths_U, depth))]),
            {name: score_H[keep_H] for name, score_H in self.scores.items()},
            self.references,
        )

    def __iter__(self) -> Iterator[NBestList]:
        for number, utterance in enumerate(self.utterances):
            start, end = map(int, self.hyp_starts_U1[number : number + 2])
            texts = [self.text(hypothesis) for hypothesis in range(start, end)]
            scores = {name: score_H[start:end] for name, score_H in self.scores.items()}
            yield NBestList(utterance, texts, scores, self.references.get(utterance))
