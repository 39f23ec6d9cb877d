"""What a format of n-best lists is: a name, how a path of it is recognised, a reader and a writer."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trflm.evaluation.nbest import NBestList, Report

Reader = Callable[[Path | str, Mapping[str, Path | str], Report], Iterator[NBestList]]  # (lists, score files, report)


@dataclass(frozen=True)
class Format:
    """Each lies in the file of its format and is named in `formats.FORMATS`."""

    name: str
    matches: Callable[[Path], bool]  # whether a path, `.gz` taken off, looks like this format
    read: Reader
    write: Callable[[Iterable[NBestList], Path], None]
    makes_directory: bool = False  # `write` is given a directory
    score_files: bool = False  # scores lie in files beside the lists, not inside
    holds_references: bool = True


def suffix(*suffixes: str) -> Callable[[Path], bool]:
    return lambda path: path.suffix in suffixes


def scores_inside(read: Callable[[Path | str, Report], Iterator[NBestList]]) -> Reader:
    """The reader of a format that has its scores inside."""
    return lambda path, scores, report: read(path, report)
