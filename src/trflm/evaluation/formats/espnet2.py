"""ESPnet 2: a directory with 1best_recog/, 2best_recog/, ... each with `text` (UTT words) and `score` (UTT number).

A number may be written as tensor(number).
Lower ranks may have fewer utterances; all files list them in one order.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from trflm.errors import InputError
from trflm.evaluation.formats.fields import clean, parse_score
from trflm.evaluation.formats.format import Format, Opening, read_only, scores_inside
from trflm.evaluation.nbest import ACOUSTIC, Finding, Kind, NBestList, Report, refuse
from trflm.files.reader import Line, read_lines

RECOG = re.compile(r"([0-9]+)best_recog")
TENSOR = re.compile(r"tensor\(([^,)]*).*\)")


def read_espnet2(path: Path | str, report: Report = refuse) -> Iterator[NBestList]:
    """The lists in the order of 1best_recog/text."""
    folders = {int(match[1]): folder for folder in Path(path).iterdir() if (match := RECOG.fullmatch(folder.name))}
    missing = [rank for rank in range(1, len(folders) + 1) if rank not in folders]
    if missing or not folders:
        raise InputError(
            f"{path}: there is no {missing[0] if missing else 1}best_recog in it; give the directory that ESPnet decoded into"
        )
    texts, scores = ([_Rows(folders[rank] / name) for rank in sorted(folders)] for name in ("text", "score"))
    while (utterance := texts[0].next_name) is not None:
        heard, values = [], []
        for rank, (words, numbers) in enumerate(zip(texts, scores, strict=True), 1):
            if words.next_name != utterance:
                break
            text, line = words.take()
            if numbers.next_name != utterance:
                report(Finding(Kind.SCORE, line, f'"{utterance}" has no score of rank {rank} in {numbers.path}; add it'))
                continue
            value, where = numbers.take()
            inside = TENSOR.fullmatch(value)
            score = parse_score(inside[1] if inside else value)
            if score is None:
                report(Finding(Kind.SCORE, where, f'the score {value!r} of "{utterance}" is not one finite number'))
                continue
            heard.append(clean(text))
            values.append(score)
        if heard:
            yield NBestList(utterance, heard, {ACOUSTIC: np.array(values)})
    for rows in (*texts, *scores):
        if rows.next_name is not None:
            problem = f'"{rows.next_name}" is not in {texts[0].path}, or stands in another order; sort all files alike'
            report(Finding(Kind.SYNTAX, f"{rows.path}", problem))


class _Rows:
    """A file of `UTT rest`, one row ahead."""

    def __init__(self, path: Path) -> None:
        self.path, self.lines = path, read_lines(path)
        self._advance()

    def _advance(self) -> None:
        self.line: Line | None = next(self.lines, None)
        self.next_name = None if self.line is None else (self.line.text.split(None, 1) or [""])[0]

    def take(self) -> tuple[str, str]:
        """(what follows the name, file:line)."""
        assert self.line is not None
        _, _, rest = self.line.text.strip().partition(" ")
        where = f"{self.path}:{self.line.number}"
        self._advance()
        return rest.strip(), where


def _looks(opening: Opening) -> bool:
    return opening.is_directory and (opening.path / "1best_recog").is_dir()


ESPNET2 = Format("espnet2", _looks, scores_inside(read_espnet2), read_only, holds_references=False)
