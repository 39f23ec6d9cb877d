"""Lattices from files: HTK SLF (one a file) and Kaldi's text form (many a file). Scores become natural logs."""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from trflm.errors import InputError
from trflm.evaluation.formats.fields import parse_score
from trflm.evaluation.lattice import Arc, Lattice
from trflm.files.reader import Line, read_lines

NOT_WORDS = frozenset(
    {"!NULL", "!SENT_START", "!SENT_END", "<s>", "</s>", "<eps>", "<sil>", "SIL", "-pau-", "++NOISE++", "<unk_sil>"}
)
PAIR = re.compile(r"(\w+)=(\S+)")
NUMBER = r"(-?[0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,2})?)"
ANYTHING = r"(\S+)"
LINKS = (("S", "START"), ("E", "END"))
SUFFIXES = (".gz", ".lat", ".slf", ".htk", ".txt")


def read_lattices(path: Path, words: Mapping[str, str] | None = None) -> Iterator[Lattice]:
    """The lattices of a file; its form is told by content. `words`: number -> word, for Kaldi lattices with numbers."""
    first = next((line.text for line in read_lines(path) if line.text.strip() and not line.text.startswith("#")), "")
    if PAIR.match(first.strip()):
        yield read_slf(path)
    else:
        yield from read_kaldi(path, words)


def read_slf(path: Path) -> Lattice:
    """HTK's standard lattice format. A word stands at a node, or at an arc; the name of the file names the utterance."""
    name = path.name
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    header: dict[str, tuple[Line, str]] = {}
    node_words: dict[int, str] = {}
    rows: list[Line] = []
    for line in read_lines(path):
        text = line.text
        if text.startswith("J="):
            rows.append(line)
        elif text and not text.startswith("#") and not text.isspace():
            pairs = dict(PAIR.findall(text))
            if "I" in pairs:
                node_words[_number(path, line, pairs["I"])] = _word(pairs.get("W", pairs.get("WORD", "!NULL")))
            elif "J" in pairs:
                rows.append(line)
            elif pairs:
                header |= {key: (line, value) for key, value in pairs.items()}
            else:
                raise InputError(f"{path}:{line.number}: {text[:60]!r} is not a line of an SLF lattice; write NAME=VALUE pairs")
    arcs = _slf_arcs(path, rows, node_words, _log_base(path, *header["base"]) if "base" in header else 1.0)
    starts, ends = {arc.start for arc in arcs}, {arc.end for arc in arcs}
    first = _number(path, *header["start"]) if "start" in header else min(starts - ends, default=0)
    last = _number(path, *header["end"]) if "end" in header else max(ends - starts, default=0)
    lattice = Lattice(name, arcs, first, {last: (0.0, 0.0)})
    if node_words.get(first):  # a word at the first node is on no arc
        lattice.arcs.append(Arc(-1, first, node_words[first]))
        lattice.start = -1
    return lattice


def _slf_arcs(path: Path, rows: list[Line], node_words: Mapping[int, str], factor: float) -> list[Arc]:
    """A program writes all its arcs alike: the first gives a pattern that reads the others, or they are read pair by pair."""
    pattern, keys = _pattern(rows[0].text if rows else "")
    of_start, of_end, of_acoustic, of_lm, of_word = (
        keys.index(key) if key in keys else None for key in ("S", "E", "a", "l", "W")
    )
    arcs: list[Arc] = []
    for line in rows:
        found = pattern.fullmatch(line.text)
        if found is not None and of_start is not None and of_end is not None:
            values = found.groups()
            start, end = int(values[of_start]), int(values[of_end])
            acoustic = 0.0 if of_acoustic is None else float(values[of_acoustic])
            lm = 0.0 if of_lm is None else float(values[of_lm])
            word = node_words.get(end, "") if of_word is None else _word(values[of_word])
        else:
            pairs = dict(PAIR.findall(line.text))
            start, end = (_number(path, line, pairs.get(of, pairs.get(long, ""))) for of, long in LINKS)
            acoustic, lm = (_score(path, line, pairs.get(of, "0")) for of in ("a", "l"))
            word = _word(pairs["W"]) if "W" in pairs else node_words.get(end, "")
        arcs.append(Arc(start, end, word, factor * acoustic, factor * lm))
    return arcs


def _log_base(path: Path, line: Line, text: str) -> float:
    """What scores to this base are multiplied by to become natural logs."""
    base = _score(path, line, text)
    if base <= 1:
        raise InputError(
            f"{path}:{line.number}: base={text}: these scores are no logs; let the recogniser write logs to base e"
        )
    return math.log(base)


def _pattern(text: str) -> tuple[re.Pattern[str], list[str]]:
    """What matches lines with the fields of this one in the same order, and their names."""
    kinds = {"S": r"([0-9]{1,9})", "E": r"([0-9]{1,9})", "a": NUMBER, "l": NUMBER}
    keys = [key for key, _ in PAIR.findall(text)]
    fields = [f"{key}={kinds.get(key, ANYTHING)}" for key in keys]
    return re.compile(r"\s+".join(fields) + r"\s*", re.ASCII), keys


def read_kaldi(path: Path, words: Mapping[str, str] | None = None) -> Iterator[Lattice]:
    """Kaldi's text form: a name, lines `from to word graph,acoustic,ids`, ends `node graph,acoustic,ids`, a blank line."""
    lattice: Lattice | None = None
    for line in read_lines(path):
        fields = line.text.split()
        if not fields:
            if lattice is not None:
                yield lattice
            lattice = None
        elif lattice is None:
            lattice = Lattice(fields[0])
        elif len(fields) <= 2:
            lm, acoustic = _costs(path, line, fields[1] if len(fields) == 2 else "0,0")
            lattice.finals[_number(path, line, fields[0])] = acoustic, lm
        else:
            start, end = _number(path, line, fields[0]), _number(path, line, fields[1])
            word = "" if fields[2] == "0" else (words or {}).get(fields[2], fields[2])
            if word.isdecimal() and words is not None:
                raise InputError(
                    f"{path}:{line.number}: the word {word} is not in the list of words; give the one of this decoder"
                )
            lm, acoustic = _costs(path, line, fields[3] if len(fields) > 3 else "0,0")
            if not lattice.arcs:
                lattice.start = start
            lattice.arcs.append(Arc(start, end, _word(word), acoustic, lm))
    if lattice is not None:
        yield lattice


def read_words(path: Path) -> dict[str, str]:
    """Kaldi's words.txt: lines `word number`."""
    return {fields[1]: fields[0] for line in read_lines(path) if len(fields := line.text.split()) == 2}


def _word(text: str) -> str:
    return "" if text in NOT_WORDS else re.sub(r"\(\d+\)$", "", text)


def _number(path: Path, line: Line, text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise InputError(f"{path}:{line.number}: {text[:60]!r} is not the number of a node (at most 9 digits)")
    return int(text)


def _score(path: Path, line: Line, text: str) -> float:
    value = parse_score(text)
    if value is None:
        raise InputError(f"{path}:{line.number}: the score {text!r} is not a finite number")
    return value


def _costs(path: Path, line: Line, text: str) -> tuple[float, float]:
    graph, _, rest = text.partition(",")
    return tuple(-_score(path, line, part or "0") for part in (graph, rest.partition(",")[0]))  # pyright: ignore[reportReturnType]
