"""Transcripts: lines `UTT word word ...`, one an utterance. References and best hypotheses are both such files."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from trflm.errors import InputError
from trflm.files.reader import Line, read_lines
from trflm.files.writer import write_text


def read_transcripts(path: Path | str, lines: Iterable[Line] | None = None) -> dict[str, str]:
    """utterance -> its words, separated by one blank (none at all is a transcript too: nothing was said)."""
    found = []
    for line in read_lines(path) if lines is None else lines:
        fields = line.text.split()
        if not fields:
            raise InputError(f"{path}:{line.number}: the line is empty; remove it")
        found.append((line.number, fields[0], " ".join(fields[1:])))
    return transcripts_of(path, found, "UTT word word ...")


def transcripts_of(path: Path | str, found: Iterable[tuple[int, str, str]], form: str) -> dict[str, str]:
    """utterance -> its words, of (line, utterance, words) in order; an utterance that is there twice is an InputError."""
    first: dict[str, int] = {}
    transcripts: dict[str, str] = {}
    for number, utterance, words in found:
        if utterance in first:
            raise InputError(f'{path}:{number}: utterance "{utterance}" was already on line {first[utterance]}; remove one')
        first[utterance] = number
        transcripts[utterance] = words
    if not transcripts:
        raise InputError(f"{path}: there is no transcript in it; write lines `{form}`")
    return transcripts


def write_transcripts(transcripts: Mapping[str, str], path: Path | str) -> None:
    with write_text(path) as file:
        file.writelines(f"{utterance} {words}".rstrip() + "\n" for utterance, words in transcripts.items())


def match_utterances(hypotheses: Iterable[str], references: Iterable[str], hyp_file: str, ref_file: str) -> None:
    """Every utterance has both a hypothesis and a reference, or InputError: leaving some out would flatter the rate."""
    hypotheses, references = list(hypotheses), list(references)
    for names, known, file, other in [
        (references, set(hypotheses), ref_file, hyp_file),
        (hypotheses, set(references), hyp_file, ref_file),
    ]:
        missing = [name for name in names if name not in known]
        if missing:
            raise InputError(
                f'{file}: utterance "{missing[0]}" ({len(missing)} such) is not in {other}; add it there or remove it here'
            )
