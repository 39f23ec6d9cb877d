"""The why view: which utterances got better or worse from one system to another, and which words decided."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from trflm.evaluation.alignment import Alignment
from trflm.evaluation.wer import WordErrors

NOTHING = "-"  # how an empty stretch of words is shown


@dataclass(frozen=True)
class Difference:
    """A stretch in which the systems disagree: what was said, what A heard, what B heard."""

    reference: str
    a: str
    b: str


@dataclass(frozen=True)
class Change:
    """An utterance in which the systems disagree."""

    utterance: str
    errors_a: int
    errors_b: int
    differences: tuple[Difference, ...]

    @property
    def gain(self) -> int:
        """Errors that B has less."""
        return self.errors_a - self.errors_b


def changed_utterances(a: WordErrors, b: WordErrors) -> list[Change]:
    """Every utterance that A and B heard differently, the most improved first, the worst harmed last."""
    found = []
    for number, utterance in enumerate(a.utterances):
        differences = tuple(_differences(a.alignments[number], b.alignments[number]))
        if differences:
            found.append(Change(utterance, int(a.errors_U[number]), int(b.errors_U[number]), differences))
    return sorted(found, key=lambda change: -change.gain)


def decisive_words(found: Sequence[Change]) -> tuple[Counter[str], Counter[str]]:
    """Reference words that B got right and A did not, and those that A got right and B did not."""
    repaired: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    for change in found:
        for difference in change.differences:
            said, a, b = (Counter(text.split()) for text in (difference.reference, difference.a, difference.b))
            repaired += (said & b) - a
            broken += (said & a) - b
    return repaired, broken


def _differences(a: Alignment, b: Alignment) -> list[Difference]:
    """Neighbouring places in which A and B differ, joined into stretches."""
    stretches: list[tuple[list[str], list[str], list[str]]] = []
    open_stretch = False

    def add(said: list[str], heard_a: list[str], heard_b: list[str]) -> None:
        if not open_stretch:
            stretches.append(([], [], []))
        for part, more in zip(stretches[-1], (said, heard_a, heard_b), strict=True):
            part.extend(more)

    for place in range(len(a.reference) + 1):
        if a.inserted[place] != b.inserted[place]:
            add([], list(a.inserted[place]), list(b.inserted[place]))
            open_stretch = True
        if place == len(a.reference):
            break
        if a.heard[place] != b.heard[place]:
            add([a.reference[place]], _word(a.heard[place]), _word(b.heard[place]))
            open_stretch = True
        else:
            open_stretch = False
    return [Difference(*(" ".join(part) for part in stretch)) for stretch in stretches]


def _word(heard: str | None) -> list[str]:
    return [] if heard is None else [heard]
