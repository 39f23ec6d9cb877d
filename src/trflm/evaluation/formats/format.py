"""What a format of n-best lists is: a name, how content of it is recognised, a reader and a writer."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from trflm.errors import InputError
from trflm.evaluation.nbest import NBestList, Report
from trflm.files.reader import BOM, open_binary
from trflm.files.remote import is_address

LOOKED_AT = 1 << 16  # bytes of a file from which its format is told


@dataclass(frozen=True)
class Opening:
    """The beginning of a file, or a directory: all that is looked at to tell the format. Of stdin nothing is used up."""

    path: Path  # `.gz` taken off
    text: str = ""

    @classmethod
    def of(cls, path: Path | str) -> "Opening":
        plain = Path(str(path).removesuffix(".gz"))
        if not is_address(path) and Path(path).is_dir():
            return cls(plain)
        with open_binary(path) as file:
            return cls(plain, _peek(file, path).decode(errors="replace").removeprefix(BOM))

    @property
    def is_directory(self) -> bool:
        return not self.text and self.path.is_dir()

    @cached_property
    def lines(self) -> list[str]:
        """Whole ones, or the only one there is."""
        lines = self.text.splitlines()
        return lines if len(lines) < 2 or len(self.text) < LOOKED_AT // 2 else lines[:-1]

    @property
    def first(self) -> str:
        """The first line that is not blank."""
        return next((line.strip() for line in self.lines if line.strip()), "")


def _peek(file: BinaryIO, path: Path | str) -> bytes:
    try:
        if str(path) == "-":
            return file.peek(LOOKED_AT)  # pyright: ignore[reportAttributeAccessIssue]
        return file.read(LOOKED_AT)
    except (OSError, EOFError) as error:
        raise InputError(f"{path}: the file is damaged or cannot be read: {error}") from error


Reader = Callable[[Path | str, Mapping[str, Path | str], Report], Iterator[NBestList]]  # (lists, score files, report)


@dataclass(frozen=True)
class Format:
    """Each lies in the file of its format and is named in `formats.FORMATS`."""

    name: str
    matches: Callable[[Opening], bool]  # whether this looks like it
    read: Reader
    write: Callable[[Iterable[NBestList], Path], None]
    makes_directory: bool = False  # `write` is given a directory
    score_files: bool = False  # scores lie in files beside the lists, not inside
    holds_references: bool = True
    read_with: "Callable[[Path | str, Report, Mapping[str, str] | None], Iterator[NBestList]] | None" = (
        None  # told what --field says
    )


def read_only(lists: Iterable[NBestList], path: Path) -> None:
    """The writer of a format that is only read."""
    raise InputError(f"{path}: lists of this format can be read, but not written; give kaldi, srilm, espnet, mlm or jsonl")


def suffix(*suffixes: str) -> Callable[[Opening], bool]:
    return lambda opening: opening.path.suffix in suffixes


def scores_inside(read: Callable[[Path | str, Report], Iterator[NBestList]]) -> Reader:
    """The reader of a format that has its scores inside."""
    return lambda path, scores, report: read(path, report)
