"""Alignments to look at: hypothesis under reference, a column a place, errors marked S, D or I."""

import unicodedata
from collections.abc import Iterator

from trflm.evaluation.alignment import Alignment
from trflm.evaluation.wer import WordErrors

NOTHING = "*"  # stands, as wide as the word beside it, where one side has none
WIDTH = 100  # columns of a line, after its title


def pairs(alignment: Alignment) -> list[tuple[str | None, str | None]]:
    """(said, heard) place by place; None where one side has no word."""
    found: list[tuple[str | None, str | None]] = []
    for place, gap in enumerate(alignment.inserted):
        found += [(None, word) for word in gap]
        if place < len(alignment.reference):
            found.append((alignment.reference[place], alignment.heard[place]))
    return found


def laid_out(errors: WordErrors) -> Iterator[str]:
    """The lines of every utterance that has errors."""
    for utterance, alignment in zip(errors.utterances, errors.alignments, strict=True):
        counts = {"S": alignment.substitutions, "D": alignment.deletions, "I": alignment.insertions}
        if any(counts.values()):
            yield f"{utterance}: " + " ".join(f"{kind} {count}" for kind, count in counts.items())
            for part in _parts([_column(*pair) for pair in pairs(alignment)]):
                for title, row in zip(("said ", "heard", "     "), zip(*part, strict=True), strict=True):
                    if line := " ".join(row).rstrip():
                        yield f"  {title}  {line}"


def _column(said: str | None, heard: str | None) -> tuple[str, str, str]:
    """The two words and the mark, equally wide."""
    mark = " " if said == heard else "I" if said is None else "D" if heard is None else "S"
    width = max(_width(word) for word in (said, heard) if word is not None)
    cells = (said or NOTHING * width, heard or NOTHING * width, mark)
    return tuple(cell + " " * (width - _width(cell)) for cell in cells)  # pyright: ignore[reportReturnType]


def _parts(columns: list[tuple[str, str, str]]) -> Iterator[list[tuple[str, str, str]]]:
    """Columns that fit on a line together."""
    part: list[tuple[str, str, str]] = []
    used = 0
    for column in columns:
        width = _width(column[0]) + 1
        if part and used + width > WIDTH:
            yield part
            part, used = [], 0
        part.append(column)
        used += width
    if part:
        yield part


def _width(word: str) -> int:
    """Columns of a terminal: a wide character takes two, a combining mark none."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in word
    )
