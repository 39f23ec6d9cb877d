"""Kaldi text archives: `UTT-N word word ...`, one score file a score `UTT-N value`, ranks N from 1.

The lines of one utterance stand together, in any order (`sort` puts 10 before 2); the ranks give the order. Score files
may list the utterances in another order than the n-best file: scores read ahead wait in arrays.
"""

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from trflm.errors import InputError
from trflm.evaluation.formats.fields import clean, parse_score
from trflm.evaluation.formats.format import Format
from trflm.evaluation.formats.seen import Seen
from trflm.evaluation.nbest import Finding, Kind, NBestList, Report, refuse
from trflm.files.reader import Line, read_lines
from trflm.files.writer import write_text

RANK = re.compile(r"[0-9]{1,9}")


def read_kaldi(nbest: Path | str, scores: Mapping[str, Path | str], report: Report = refuse) -> Iterator[NBestList]:
    """The lists in the order of the n-best file, with one score for each named score file."""
    score_files = {name: _ScoreFile(path, report) for name, path in scores.items()}
    for block in _blocks(nbest, report):
        index = sorted(range(len(block.ranks)), key=block.ranks.__getitem__)
        _check_ranks(nbest, block, [block.ranks[i] for i in index], report)
        columns = {name: file.scores(nbest, block) for name, file in score_files.items()}
        keep = [i for i in index if all(block.ranks[i] in column for column in columns.values())]
        if keep:
            values = {name: np.array([column[block.ranks[i]] for i in keep]) for name, column in columns.items()}
            yield NBestList(block.utterance, [clean(block.rest[i]) for i in keep], values)
    for file in score_files.values():
        file.report_unused(nbest)


def write_kaldi(lists: Iterable[NBestList], directory: Path) -> None:
    """`nbest.txt`, `NAME.txt` for every score, and `ref.txt` if there are references, all in a directory that exists."""
    with ExitStack() as stack:
        text = stack.enter_context(write_text(directory / "nbest.txt"))
        columns = {}
        reference = None
        for number, nbest in enumerate(lists):
            if number == 0:
                _check_names(nbest)
                columns = {name: stack.enter_context(write_text(directory / f"{name}.txt")) for name in nbest.scores}
            if columns.keys() != nbest.scores.keys():
                raise InputError(f'utterance "{nbest.utterance}" has other scores than the first; give all the same')
            if nbest.reference is not None:
                reference = reference or stack.enter_context(write_text(directory / "ref.txt"))
                reference.write(f"{nbest.utterance} {nbest.reference}".rstrip() + "\n")
            text.writelines(f"{nbest.utterance}-{rank} {words}".rstrip() + "\n" for rank, words in enumerate(nbest.texts, 1))
            for name, file in columns.items():
                values = nbest.scores[name].tolist()
                file.writelines(f"{nbest.utterance}-{rank} {value!r}\n" for rank, value in enumerate(values, 1))


def _check_names(nbest: NBestList) -> None:
    """No two files with one name, which on some systems `lm` and `LM` are."""
    taken = {"nbest": "the hypotheses", "ref": "the references"}
    for name in nbest.scores:
        if name.lower() in taken:
            raise InputError(
                f'utterance "{nbest.utterance}": the score {name!r} would be written to {name}.txt, which is the file of '
                f"{taken[name.lower()]}; give the score another name, or convert to jsonl, which takes any"
            )
        taken[name.lower()] = f"the score {name!r}"


@dataclass
class _Block:
    """Consecutive lines of one utterance; entry i is one line."""

    utterance: str
    ranks: "array[int]" = field(default_factory=lambda: array("q"))
    lines: "array[int]" = field(default_factory=lambda: array("q"))
    rest: list[str] = field(default_factory=list)

    def key(self, entry: int) -> str:
        return f"{self.utterance}-{self.ranks[entry]}"


def _blocks(path: Path | str, report: Report) -> Iterator[_Block]:
    seen = Seen()  # each utterance with its first line
    block = None
    ranks: dict[int, int] = {}  # of this block: rank -> line
    for line in read_lines(path):
        parsed = _parse_key(path, line, report)
        if parsed is None:
            continue
        utterance, rank, rest = parsed
        if block is None or utterance != block.utterance:
            if (before := seen.line_of(utterance)) is not None:
                problem = f'"{utterance}-{rank}" stands apart from line {before}; put the lines of an utterance together'
                report(Finding(Kind.DUPLICATE, f"{path}:{line.number}", problem))
                continue
            if block is not None:
                yield block
            block, ranks = _Block(utterance), {}
            seen.add(utterance, line.number)
        if rank in ranks:
            problem = f'"{utterance}-{rank}" was already on line {ranks[rank]}; remove one of them'
            report(Finding(Kind.DUPLICATE, f"{path}:{line.number}", problem))
            continue
        ranks[rank] = line.number
        block.ranks.append(rank)
        block.lines.append(line.number)
        block.rest.append(rest)
    if block is not None:
        yield block


def _parse_key(path: Path | str, line: Line, report: Report) -> tuple[str, int, str] | None:
    fields = line.text.split(None, 1)
    if not fields:
        report(Finding(Kind.SYNTAX, f"{path}:{line.number}", "the line is empty; remove it"))
        return None
    utterance, dash, rank = fields[0].rpartition("-")
    if not utterance or not dash or not RANK.fullmatch(rank):
        problem = f'"{fields[0]}" is not UTT-N with a rank N; write for instance "{fields[0]}-1"'
        report(Finding(Kind.SYNTAX, f"{path}:{line.number}", problem))
        return None
    return utterance, int(rank), fields[1] if len(fields) > 1 else ""


def _check_ranks(path: Path | str, block: _Block, ranks: list[int], report: Report) -> None:
    for expected, rank in enumerate(ranks, 1):
        if rank != expected:
            line = block.lines[block.ranks.index(rank)]
            problem = (
                f'"{block.utterance}-{rank}" comes where rank {expected} is missing; number hypotheses 1, 2, 3 without gaps'
            )
            report(Finding(Kind.RANK, f"{path}:{line}", problem))
            return


@dataclass
class _ScoreColumn:
    """The scores of one utterance in one file: rank -> value, compact while it waits."""

    ranks: "array[int]"
    lines: "array[int]"
    values: "array[float]"


class _ScoreFile:
    """Scores by utterance, read in step with the n-best file."""

    def __init__(self, path: Path | str, report: Report) -> None:
        self.path = path
        self.report = report
        self.columns = self._read()
        self.waiting: dict[str, _ScoreColumn] = {}

    def _read(self) -> Iterator[tuple[str, _ScoreColumn]]:
        for block in _blocks(self.path, self.report):
            column = _ScoreColumn(array("q"), array("q"), array("d"))
            for entry, text in enumerate(block.rest):
                value = parse_score(text.strip())
                if value is None:
                    problem = f'"{block.key(entry)}" has the score {text.strip()!r}; write one finite number'
                    self.report(Finding(Kind.SCORE, f"{self.path}:{block.lines[entry]}", problem))
                    continue
                column.ranks.append(block.ranks[entry])
                column.lines.append(block.lines[entry])
                column.values.append(value)
            yield block.utterance, column

    def scores(self, nbest: Path | str, block: _Block) -> dict[int, float]:
        """rank -> score of this utterance. What is missing or too much is reported."""
        column = self._find(block.utterance)
        if column is None:
            problem = f'utterance "{block.utterance}" has no scores in {self.path}; add them or drop the utterance'
            self.report(Finding(Kind.SCORE, f"{nbest}:{block.lines[0]}", problem))
            return {}
        scores = dict(zip(column.ranks, column.values, strict=True))
        for entry, rank in enumerate(block.ranks):
            if rank not in scores:
                problem = f'"{block.key(entry)}" has no score in {self.path}; add it or drop the line'
                self.report(Finding(Kind.SCORE, f"{nbest}:{block.lines[entry]}", problem))
        known = set(block.ranks)
        for rank, line in zip(column.ranks, column.lines, strict=True):
            if rank not in known:
                problem = f'"{block.utterance}-{rank}" is not in {nbest}; remove the line or add the hypothesis'
                self.report(Finding(Kind.SCORE, f"{self.path}:{line}", problem))
        return scores

    def _find(self, utterance: str) -> _ScoreColumn | None:
        if utterance in self.waiting:
            return self.waiting.pop(utterance)
        for name, column in self.columns:
            if name == utterance:
                return column
            self.waiting[name] = column
        return None

    def report_unused(self, nbest: Path | str) -> None:
        """Scores of utterances that the n-best file does not have."""
        self.waiting.update(self.columns)
        for utterance, column in self.waiting.items():
            where = f"{self.path}:{column.lines[0]}" if column.lines else str(self.path)
            problem = f'utterance "{utterance}" is not in {nbest}; remove its lines or add its hypotheses'
            self.report(Finding(Kind.SCORE, where, problem))


KALDI = Format("kaldi", lambda opening: True, read_kaldi, write_kaldi, makes_directory=True, score_files=True)
