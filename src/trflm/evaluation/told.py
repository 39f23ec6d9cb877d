"""Transcripts in the forms that tools write, told by content of both files or chosen: never guessed where it could be wrong.

kaldi    UTT word word ...
trn      word word ... (spk_utt)          as NIST's sclite has it
plain    word word ...                    line n of one file belongs to line n of the other
"""

import re
from collections.abc import Sequence
from pathlib import Path

from trflm.errors import InputError
from trflm.evaluation.transcripts import read_transcripts
from trflm.files.reader import Line, read_lines

AUTO, KALDI, PLAIN, TRN = "auto", "kaldi", "plain", "trn"
FORMS = (AUTO, KALDI, PLAIN, TRN)
END = re.compile(r"\(([^\s()]+)\)\s*$")
LIKE_A_NAME = re.compile(r"[0-9_-]")


def tell(paths: Sequence[Path]) -> str:
    """The form of these files, which belong together; InputError where two are possible."""
    lines = [[line.text.split() for line in read_lines(path)] for path in paths]
    if all(words and END.search(words[-1]) for file in lines for words in file):
        return TRN
    if not all(words for file in lines for words in file):
        return PLAIN  # an empty line has no name
    names = [[words[0] for words in file] for file in lines]
    distinct = all(len(set(of)) == len(of) for of in names)
    named = all(LIKE_A_NAME.search(name) for of in names for name in of)
    same = all(set(of) == set(names[0]) for of in names)
    if distinct and named:
        return KALDI
    if distinct and same and max(map(len, names)) > 0:
        example = names[0][0]
        raise InputError(f'{paths[0]}: is "{example}" the name of an utterance or a word? Say --format kaldi or --format plain')
    return PLAIN


def read_told(path: Path, form: str) -> dict[str, str]:
    """utterance -> its words. Lines without names are called line1, line2, ..."""
    if form == KALDI:
        return read_transcripts(path)
    found: dict[str, str] = {}
    for line in read_lines(path):
        name, words = (f"line{line.number}", line.text) if form == PLAIN else _trn(path, line)
        if name in found:
            raise InputError(f'{path}:{line.number}: utterance "{name}" comes a second time; remove one')
        found[name] = " ".join(words.split())
    if not found:
        raise InputError(f"{path}: there is no transcript in it")
    return found


def _trn(path: Path, line: Line) -> tuple[str, str]:
    match = END.search(line.text)
    if match is None:
        raise InputError(f"{path}:{line.number}: {line.text[:60]!r} does not end in (utterance); write `words (spk_utt)`")
    return match[1], line.text[: match.start()]


def in_characters(transcripts: dict[str, str]) -> dict[str, str]:
    """Every character a word, blanks left out: what a character error rate counts."""
    return {name: " ".join("".join(words.split())) for name, words in transcripts.items()}
