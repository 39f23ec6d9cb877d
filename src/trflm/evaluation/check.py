"""Check n-best lists: collect everything that is wrong, and what only looks wrong, in one pass over the file."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from trflm.errors import InputError
from trflm.evaluation.alignment import word_errors
from trflm.evaluation.nbest import ACOUSTIC, Finding, Kind, NBestList, Report

SUSPICIONS = frozenset({Kind.REPEATED, Kind.SIGN})  # findings that do not stop a strict reading
ENOUGH = 5  # lists before their order says anything about a sign
MOST = 0.75  # the share of them that must point the wrong way


@dataclass
class CheckReport:
    """What was read and what was found; of each kind the first few findings are kept, all are counted."""

    utterances: int = 0
    hypotheses: int = 0
    words: int = 0
    deepest: int = 0
    scores: tuple[str, ...] = ()
    counts: Counter[Kind] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    @property
    def errors(self) -> int:
        return sum(count for kind, count in self.counts.items() if kind not in SUSPICIONS)


def check(
    path: str, read: Callable[[Report], Iterator[NBestList]], references: Mapping[str, str] | None = None, keep: int = 20
) -> CheckReport:
    """Read everything, leaving out what is faulty. With references the sign of the acoustic score is judged by errors,
    without them by the order of the lists, in which good hypotheses come first.
    """
    result = CheckReport()
    sign = _SignByErrors(references) if references is not None else _SignByOrder()

    def report(finding: Finding) -> None:
        result.counts[finding.kind] += 1
        if result.counts[finding.kind] <= keep:
            result.findings.append(finding)

    try:
        for nbest in read(report):
            result.utterances += 1
            result.hypotheses += len(nbest)
            result.words += sum(len(text.split()) for text in nbest.texts)
            result.deepest = max(result.deepest, len(nbest))
            result.scores = tuple(nbest.scores)
            if len(set(nbest.texts)) < len(nbest):
                text, times = Counter(nbest.texts).most_common(1)[0]
                problem = f'utterance "{nbest.utterance}" has {text[:60]!r} {times} times; equal hypotheses are scored once'
                report(Finding(Kind.REPEATED, path, problem))
            if ACOUSTIC in nbest.scores:
                sign.add(nbest)
    except InputError as error:  # a fault that ends the reading: encoding, a damaged archive, JSON that breaks off
        where, _, message = str(error).partition(": ")
        report(Finding(Kind.SYNTAX, where, message))
    if not result.utterances:
        report(Finding(Kind.EMPTY, path, "there is no n-best list in it; give a file with at least one"))
    if evidence := sign.evidence():
        report(Finding(Kind.SIGN, path, f"wrong sign suspected: {evidence}; are these costs? Then say --acoustic-is-cost"))
    return result


class _SignByOrder:
    """Does the acoustic score rise down the lists, where hypotheses get worse?"""

    def __init__(self) -> None:
        self.lists = self.rising = 0

    def add(self, nbest: NBestList) -> None:
        score_K = nbest.scores[ACOUSTIC]
        half = len(score_K) // 2
        if half:
            self.lists += 1
            self.rising += bool(score_K[-half:].mean() > score_K[:half].mean())

    def evidence(self) -> str | None:
        if self.lists < ENOUGH or self.rising < MOST * self.lists:
            return None
        return f"in {self.rising} of {self.lists} lists the later hypotheses have the better acoustic scores"


class _SignByErrors:
    """Has the hypothesis of highest acoustic score more errors than the one of lowest?"""

    def __init__(self, references: Mapping[str, str]) -> None:
        self.references = references
        self.highest = self.lowest = 0

    def add(self, nbest: NBestList) -> None:
        if nbest.utterance in self.references:
            score_K = nbest.scores[ACOUSTIC]
            ends = [nbest.texts[int(np.argmax(score_K))], nbest.texts[int(np.argmin(score_K))]]
            high, low = word_errors(self.references[nbest.utterance], ends)
            self.highest, self.lowest = self.highest + int(high), self.lowest + int(low)

    def evidence(self) -> str | None:
        if self.highest <= self.lowest:
            return None
        return f"choosing the highest acoustic scores gives {self.highest} word errors, the lowest {self.lowest}"
