"""NeMo's beam search: lines `text<TAB>score`, the hypotheses of an utterance one after another, as many for each.

There are no names in it: utterances are called utt000001, utt000002, ... How many hypotheses each has is in the name of the
file, as NeMo writes it (preds_out_width128_....tsv), or given: `--field depth=128`.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import numpy as np

from trflm.errors import InputError
from trflm.evaluation.formats.fields import clean, parse_score
from trflm.evaluation.formats.format import Format, Opening, read_only, scores_inside
from trflm.evaluation.nbest import ACOUSTIC, Finding, Kind, NBestList, Report, refuse
from trflm.files.reader import read_lines

WIDTH = re.compile(r"width([0-9]+)")
MOST_DIGITS = 6  # of a depth


def read_nemo(path: Path | str, report: Report = refuse, fields: Mapping[str, str] | None = None) -> Iterator[NBestList]:
    """The lists in order."""
    found = WIDTH.search(Path(path).name)
    depth = (fields or {}).get("depth") or (found[1] if found else "")
    if not depth.isdecimal() or len(depth) > MOST_DIGITS or int(depth) < 1:
        raise InputError(
            f"{path}: how many hypotheses has an utterance? Say --field depth=N, or keep NeMo's name with width...N "
            f"(N: from 1, at most {MOST_DIGITS} digits)"
        )
    lines, number = read_lines(path), 0
    while block := list(islice(lines, int(depth))):
        number += 1
        if len(block) < int(depth):
            problem = f"the last utterance has {len(block)} of {depth} hypotheses; is the file whole, and depth right?"
            report(Finding(Kind.SYNTAX, f"{path}:{block[-1].number}", problem))
        texts, scores = [], []
        for line in block:
            text, tab, value = line.text.rpartition("\t")
            score = parse_score(value.strip()) if tab else None
            if score is None:
                report(
                    Finding(
                        Kind.SCORE,
                        f"{path}:{line.number}",
                        f"{line.text[:60]!r} is not `text<TAB>score`; write one finite number",
                    )
                )
                continue
            texts.append(clean(text))
            scores.append(score)
        if texts:
            yield NBestList(f"utt{number:06}", texts, {ACOUSTIC: np.array(scores)})


def _looks(opening: Opening) -> bool:
    text, tab, value = opening.first.rpartition("\t")
    return bool(tab) and "\t" not in text and parse_score(value) is not None


NEMO = Format("nemo", _looks, scores_inside(read_nemo), read_only, holds_references=False, read_with=read_nemo)
