"""SRILM n-best: one file an utterance, named after it, lines `acoustic lm nwords word word ...`, best first.

Scores in these files are logs to base 10. They are converted in decimal arithmetic of 28 digits, so that a natural log
written and read back is the same number to the last bit. `<s>`, `</s>` and `-pau-` (a pause) are not words.
"""

from collections.abc import Iterable, Iterator
from decimal import Context, Decimal
from pathlib import Path

import numpy as np

from trflm.errors import InputError
from trflm.evaluation.formats.fields import parse_score
from trflm.evaluation.formats.format import Format, Opening, scores_inside
from trflm.evaluation.nbest import ACOUSTIC, LM, Finding, Kind, NBestList, Report, refuse
from trflm.files.reader import read_lines
from trflm.files.writer import write_text

EXACT = Context(prec=28)
LN10 = EXACT.ln(Decimal(10))
NOT_WORDS = frozenset({"<s>", "</s>", "-pau-"})
SUFFIXES = (".gz", ".score", ".nbest", ".txt")


def read_srilm(path: Path | str, report: Report = refuse) -> Iterator[NBestList]:
    """A directory of lists, by utterance name, or one file."""
    path = Path(path)
    files = sorted(file for file in path.iterdir() if not file.name.startswith(".")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path}: the directory is empty; put one n-best file an utterance there")
    seen: dict[str, Path] = {}
    for file in files:
        name = utterance_name(file)
        if not name or name.split() != [name]:
            report(Finding(Kind.SYNTAX, str(file), f"{file.name!r} does not name an utterance; use a name without blanks"))
        elif name in seen:
            report(Finding(Kind.DUPLICATE, str(file), f'utterance "{name}" is also in {seen[name].name}; remove one'))
        else:
            seen[name] = file
            nbest = _read_list(file, name, report)
            if nbest is not None:
                yield nbest


def write_srilm(lists: Iterable[NBestList], directory: Path) -> None:
    """One `.txt` file an utterance into a directory that exists. Needs an acoustic and a language model score."""
    for nbest in lists:
        if nbest.scores.keys() != {ACOUSTIC, LM}:
            raise InputError(
                f'utterance "{nbest.utterance}" has the scores {sorted(nbest.scores)}; SRILM lists hold exactly '
                f"{ACOUSTIC!r} and {LM!r}: add or leave out scores"
            )
        path = directory / f"{nbest.utterance}.txt"
        if "/" in nbest.utterance or nbest.utterance.startswith(".") or utterance_name(path) != nbest.utterance:
            raise InputError(f'utterance "{nbest.utterance}" cannot name a file; rename it')
        if path.exists():
            raise InputError(f'utterance "{nbest.utterance}": another one has the file {path.name}; rename one of them')
        with write_text(path) as file:
            for text, acoustic, lm in zip(nbest.texts, nbest.scores[ACOUSTIC], nbest.scores[LM], strict=True):
                words = text.split()
                if not NOT_WORDS.isdisjoint(words):
                    raise InputError(f'utterance "{nbest.utterance}": {text!r} has a word that SRILM does not take as one')
                file.write(f"{to_log10(acoustic)} {to_log10(lm)} {len(words)} {text}".rstrip() + "\n")


def utterance_name(file: Path) -> str:
    """The file's name without the usual suffixes: `sa1.score.gz` -> `sa1`."""
    name = file.name
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def from_log10(text: str) -> float | None:
    """A log to base 10 as a natural log; None if it is not a finite number."""
    if parse_score(text) is None:
        return None
    value = float(EXACT.multiply(EXACT.create_decimal(text), LN10))
    return value if np.isfinite(value) else None


def to_log10(value: float) -> str:
    """A natural log as a log to base 10, with digits enough to come back the same."""
    return f"{EXACT.divide(Decimal(float(value)), LN10):.22g}"


def _read_list(file: Path, name: str, report: Report) -> NBestList | None:
    texts: list[str] = []
    rows: list[tuple[float, float]] = []
    for line in read_lines(file):
        where = f"{file}:{line.number}"
        fields = line.text.split()
        if line.number == 1 and line.text.startswith("NBestList"):
            raise InputError(
                f"{where}: {line.text.strip()!r} is a Decipher list; convert it with SRILM's rescore-decipher first"
            )
        if len(fields) < 3 or not fields[2].isascii() or not fields[2].isdecimal():
            problem = (
                f"{line.text.strip()[:60]!r} does not begin with two scores and a word count; write `acoustic lm nwords words`"
            )
            report(Finding(Kind.SYNTAX, where, problem))
            continue
        scores = from_log10(fields[0]), from_log10(fields[1])
        if scores[0] is None or scores[1] is None:
            report(
                Finding(
                    Kind.SCORE,
                    where,
                    f"the scores {fields[0]!r} {fields[1]!r} are not two finite numbers; write logs to base 10",
                )
            )
            continue
        words = [word for word in fields[3:] if word not in NOT_WORDS]
        if fields[2].lstrip("0") not in {str(len(words)).lstrip("0"), str(len(fields) - 3).lstrip("0")}:
            problem = f"the line says {fields[2][:20]} words and has {len(words)}; correct the count"
            report(Finding(Kind.SYNTAX, where, problem))
        else:
            texts.append(" ".join(words))
            rows.append((scores[0], scores[1]))
    if not texts:
        report(Finding(Kind.EMPTY, str(file), f'utterance "{name}" has no hypotheses; remove the file'))
        return None
    columns = np.array(rows)
    return NBestList(name, texts, {ACOUSTIC: columns[:, 0].copy(), LM: columns[:, 1].copy()})


def _looks(opening: Opening) -> bool:
    if opening.is_directory:
        return True
    fields = opening.first.split()
    return opening.first.startswith("NBestList") or (
        len(fields) > 2 and all(parse_score(field) is not None for field in fields[:2]) and fields[2].isdecimal()
    )


SRILM = Format("srilm", _looks, scores_inside(read_srilm), write_srilm, makes_directory=True, holds_references=False)
