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
    header: dict[str, str] = {}
    node_words: dict[int, str] = {}
    rows: list[tuple[Line, dict[str, str]]] = []
    for line in read_lines(path):
        if line.text.startswith("#") or not line.text.strip():
            continue
        pairs = dict(PAIR.findall(line.text))
        if "I" in pairs:
            node_words[_number(path, line, pairs["I"])] = pairs.get("W", pairs.get("WORD", "!NULL"))
        elif "J" in pairs:
            rows.append((line, pairs))
        elif pairs:
            header |= pairs
        else:
            raise InputError(
                f"{path}:{line.number}: {line.text[:60]!r} is not a line of an SLF lattice; write NAME=VALUE pairs"
            )
    base = float(header.get("base", math.e))
    factor = math.log(base) if base not in (0.0, 1.0) else 1.0
    arcs = []
    for line, pairs in rows:
        start, end = (_number(path, line, pairs.get(of, pairs.get(long, ""))) for of, long in (("S", "START"), ("E", "END")))
        acoustic, lm = (factor * _score(path, line, pairs.get(of, "0")) for of in ("a", "l"))
        arcs.append(Arc(start, end, _word(pairs.get("W", node_words.get(end, "!NULL"))), acoustic, lm))
    nodes = {arc.start for arc in arcs} | {arc.end for arc in arcs}
    first = int(header["start"]) if "start" in header else min(nodes - {arc.end for arc in arcs}, default=0)
    last = int(header["end"]) if "end" in header else max(nodes - {arc.start for arc in arcs}, default=0)
    lattice = Lattice(name, arcs, first, {last: (0.0, 0.0)})
    if _word(node_words.get(first, "!NULL")):  # a word at the first node is on no arc
        lattice.arcs.append(Arc(-1, first, node_words[first]))
        lattice.start = -1
    return lattice


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
    if not text.isdecimal():
        raise InputError(f"{path}:{line.number}: {text!r} is not the number of a node")
    return int(text)


def _score(path: Path, line: Line, text: str) -> float:
    value = parse_score(text)
    if value is None:
        raise InputError(f"{path}:{line.number}: the score {text!r} is not a finite number")
    return value


def _costs(path: Path, line: Line, text: str) -> tuple[float, float]:
    graph, _, rest = text.partition(",")
    return tuple(-_score(path, line, part or "0") for part in (graph, rest.partition(",")[0]))  # pyright: ignore[reportReturnType]
