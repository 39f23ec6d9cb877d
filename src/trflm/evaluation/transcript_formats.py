"""Transcripts as recognisers and scoring tools write them, chosen or told apart by their content.

    kaldi   UTT word word ...        the same utterances on both sides, in any order
    trn     word word ... (UTT)      NIST sclite; lines that begin with ;; are comments
    plain   word word ...            the n-th line of one file belongs to the n-th of the other

What cannot be told for certain is an InputError: a wrong guess would drop or count a word a line, and nobody would see it.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

from trflm.errors import InputError
from trflm.evaluation.transcripts import read_transcripts, transcripts_of
from trflm.files.reader import Line, read_lines

Transcripts = dict[str, str]
TRN = re.compile(r"(.*?)\s*\(([^()\s]+)\)\s*")
SURE = 10  # so many lines that begin with words of their own, the same in all files: those are names, whatever they look like


def read_alike(paths: Sequence[Path | str], form: str = "auto") -> tuple[list[Transcripts], str]:
    """The transcripts of files that belong together, and the form they have."""
    if form not in ("auto", *READERS):
        raise InputError(f"--format {form}: give auto, {', '.join(READERS)}")
    lines = [list(read_lines(path)) for path in paths]
    forms = [form] * len(paths) if form != "auto" else detect(paths, lines)
    read = [READERS[one](str(path), some) for one, path, some in zip(forms, paths, lines, strict=True)]
    if "plain" in forms:
        for path, some in zip(paths, read, strict=True):
            if len(some) != len(read[0]):
                raise InputError(
                    f"{path}: {len(some):,} lines, but {paths[0]} has {len(read[0]):,}: "
                    "plain lines belong together by their numbers"
                )
    return read, " and ".join(sorted(set(forms)))


def detect(paths: Sequence[Path | str], files: Sequence[list[Line]]) -> list[str]:
    """The form of each file. Where one is trn, the others are trn or kaldi: names are needed on all sides."""
    trn = [is_trn(lines) for lines in files]
    if any(trn):
        return ["trn" if one else "kaldi" for one in trn]
    words = [[line.text.split() for line in lines] for lines in files]
    heads = [[fields[0] for fields in one if fields] for one in words]
    spoken = {word for one in words for fields in one for word in fields[1:]}
    named = [sum(is_name(head) and head not in spoken for head in some) for some in heads]
    with_names = [number > 0 and number >= 0.8 * len(some) for number, some in zip(named, heads, strict=True)]
    if all(with_names):
        return ["kaldi"] * len(files)  # whatever is wrong with some of the names, its reader will say
    if any(with_names):
        one, other = paths[with_names.index(True)], paths[with_names.index(False)]
        raise InputError(
            f"{one}: lines begin with names of utterances, it seems, but those of {other} do not; "
            "write names in both, or say --format plain"
        )
    alike = all(len(set(some)) == len(some) and set(some) == set(heads[0]) for some in heads)
    if alike and heads[0]:
        if len(heads[0]) >= SURE and not spoken & set(heads[0]):
            return ["kaldi"] * len(files)
        raise InputError(
            f"{paths[0]}: every line begins with a word of its own, the same as in {paths[-1]}: "
            "these may be names of utterances or said words; say --format kaldi or --format plain"
        )
    if len({len(lines) for lines in files}) > 1:
        sizes = ", ".join(f"{path} {len(lines):,}" for path, lines in zip(paths, files, strict=True))
        raise InputError(
            f"neither names of utterances nor equal numbers of lines ({sizes}) tell what belongs together; "
            "say --format kaldi or --format trn if there are names"
        )
    return ["plain"] * len(files)


def is_trn(lines: list[Line]) -> bool:
    texts = [line.text for line in lines if line.text.strip() and not line.text.startswith(";;")]
    names = {match[2] for text in texts if (match := TRN.fullmatch(text))}
    return len(names) >= 0.8 * len(texts) > 0 and all(TRN.fullmatch(text) for text in texts)


def is_name(word: str) -> bool:
    """Whether this looks like the name of an utterance rather than a word: u1, 440c0203, 1089-134686-0000, spk_a."""
    return re.search(r"[^\W\d_]\d|\d\d-\d\d|_", word) is not None


def read_trn(path: str, lines: list[Line]) -> Transcripts:
    found: list[tuple[int, str, str]] = []
    for line in lines:
        if not line.text.strip() or line.text.startswith(";;"):
            continue
        match = TRN.fullmatch(line.text)
        if match is None:
            raise InputError(f"{path}:{line.number}: does not end with (UTT), as lines of a trn file do")
        if re.search(r"[{}]", match[1]):
            raise InputError(
                f"{path}:{line.number}: alternatives {{ a / b }} cannot be scored here; write one of them, or use sclite"
            )
        found.append((line.number, match[2], " ".join(match[1].split())))
    return transcripts_of(path, found, "word word ... (UTT)")


def read_plain(path: str, lines: list[Line]) -> Transcripts:
    """The names are the numbers of the lines; an empty line is a transcript too: nothing was said."""
    found = ((line.number, f"line {line.number}", " ".join(line.text.split())) for line in lines)
    return transcripts_of(path, found, "word word ...")


def as_characters(transcripts: Transcripts) -> Transcripts:
    """Each character a word of its own, blanks left out; an accent that is a character of its own joins its letter (NFC)."""
    return {name: " ".join("".join(unicodedata.normalize("NFC", words).split())) for name, words in transcripts.items()}


def read_kaldi(path: str, lines: list[Line]) -> Transcripts:
    return read_transcripts(path, lines)


READERS: dict[str, Callable[[str, list[Line]], Transcripts]] = {"kaldi": read_kaldi, "trn": read_trn, "plain": read_plain}
