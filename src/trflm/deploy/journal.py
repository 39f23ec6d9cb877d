"""The journal of a rescoring job: one line for each utterance that is done, in order, written before the next one is begun.

A job that is killed leaves whole lines and perhaps a piece of one. It goes on after the last whole line. All results are made
from the journal alone, so they have the same bytes however often the job was interrupted; and a journal that is joined from
those of shards gives the bytes of the job that was not divided.

Files may change below what is done: a fault that ended the job is mended, and the job goes on. Each line knows its list by
content, so that what is done is never taken for something else.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from trflm.errors import InputError
from trflm.evaluation.weights import FileContent, Weights
from trflm.files.parse import parse_json
from trflm.files.reader import Line, read_lines
from trflm.files.records import IF_SET, from_record, to_record
from trflm.files.writer import append_bytes

FORMAT = "trflm journal 2"
NAME = "journal.jsonl"
TEXTS = ("utterance", "content", "best", "reference", "first", "without_lm", "oracle")  # of an entry


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a job is: a journal is gone on with by the same job only, but for its files."""

    rescorer: str | None = None  # hash of its directory
    weights: Weights
    mapping: str
    files: Mapping[str, FileContent]  # by role
    shard: int = 1
    shards: int = 1
    scores: bool = False  # every hypothesis with all its scores is kept
    tuned_here: bool = False
    models: tuple[str, ...] = ()  # their names, in the order of `Entry.oov`


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One utterance. The second half is there only where references are known."""

    utterance: str
    content: str  # a hash of the list and its reference
    best: str
    hypotheses: int
    oov: tuple[int, ...]  # words that each model does not know, in all hypotheses
    unknown: tuple[tuple[str, ...], ...]  # which they are
    record: dict | None = field(default=None, metadata=IF_SET)  # the list with all its scores, as JSON Lines have it
    reference: str | None = field(default=None, metadata=IF_SET)
    first: str | None = field(default=None, metadata=IF_SET)
    without_lm: str | None = field(default=None, metadata=IF_SET)
    oracle: str | None = field(default=None, metadata=IF_SET)
    gains: Mapping[str, float] | None = field(default=None, metadata=IF_SET)  # where another than the first was chosen


def to_line(value: Entry) -> str:
    """What `to_record` makes of an entry, without a look at each of its words."""
    return json.dumps({key: item for key, item in vars(value).items() if item is not None}, ensure_ascii=False) + "\n"


def read_header(path: Path) -> Header:
    """The first line of a journal."""
    return _header(next(read_lines(path), Line(1, "")).text, path)


def read_entries(path: Path) -> Iterator[Entry]:
    """The other lines, of which each is whole."""
    for line in read_lines(path):
        if line.number == 1:
            _header(line.text, path)
        else:
            yield _entry(line.text, path, line.number)


class Journal:
    """A journal that is being written."""

    def __init__(self, file: BinaryIO, path: Path, done: int) -> None:
        self.file, self.path, self.done = file, path, done

    def write(self, entry: Entry) -> None:
        self.write_line(to_line(entry))

    def write_line(self, line: str) -> None:
        """What `to_line` made of an entry, here or in another process."""
        _append(self.file, line.encode())
        self.done += 1

    def entries(self) -> Iterator[Entry]:
        return read_entries(self.path)


@contextmanager
def writing(directory: Path, header: Header, resume: bool) -> Iterator[Journal]:
    """The journal of this job, ours alone until we end: new, or as far as it had come."""
    path = directory / NAME
    try:
        directory.mkdir(exist_ok=True)
        file = append_bytes(path)
    except OSError as error:
        raise InputError(f"{directory}: cannot be made or written: {error.strerror or error}") from error
    with ExitStack() as opened:
        opened.enter_context(file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"{directory}: another trf rescore is writing there; wait for it, or give another --out"
            ) from error
        done = _cut(file)
        if done < 0:
            _append(file, _header_line(header))
        elif not resume:
            raise InputError(f"{directory}: holds a job that has begun; go on with --resume, or give a new name")
        else:
            old = read_header(path)
            _check_same(old, header, path)
            if old.files != header.files:
                file = opened.enter_context(_with_header(file, path, header))
        journal = Journal(file, path, max(done, 0))
        try:
            yield journal
        except BaseException:
            if not journal.done:  # nothing is lost
                path.unlink()
                if not any(directory.iterdir()):
                    directory.rmdir()
            raise


def _append(file: BinaryIO, line: bytes) -> None:
    """In one call of the system where that is possible, so that a kill or an error leaves a beginning of the line at most: a
    buffer would write all of it once more when it is closed."""
    while line:
        line = line[os.write(file.fileno(), line) :]


def _cut(file: BinaryIO) -> int:
    """Cut off the piece of a line at the end; how many whole lines follow the header, -1 if it is not there either."""
    file.seek(0)
    lines, whole = -1, 0
    for line in file:
        if not line.endswith(b"\n"):
            break
        lines, whole = lines + 1, whole + len(line)
    file.truncate(whole)
    file.seek(0, os.SEEK_END)
    return lines


def _header_line(header: Header) -> bytes:
    return (json.dumps({"format": FORMAT, **to_record(header)}, ensure_ascii=False) + "\n").encode()


def _with_header(old: BinaryIO, path: Path, header: Header) -> BinaryIO:
    """The journal under another header, in the place of the old one, and as much ours."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)  # a kill may have left it
    new = open(draft, "x+b")  # never through a link
    fcntl.flock(new, fcntl.LOCK_EX)
    new.write(_header_line(header))
    old.seek(0)
    old.readline()
    shutil.copyfileobj(old, new)
    new.flush()
    draft.replace(path)
    return new


def _check_same(old: Header, new: Header, path: Path) -> None:
    was, now = to_record(old), to_record(new)
    for key in now:
        if key != "files" and was.get(key) != now[key]:
            raise InputError(f"{path}: the job was begun with {key} = {was.get(key)}, now it is {now[key]}; give a new --out")


def _header(line: str, path: Path) -> Header:
    try:
        record = parse_json(line)
        if record.get("format") != FORMAT:
            raise ValueError(f'no "format": "{FORMAT}"')
        return from_record(Header, record)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}:1: is not the journal of a rescoring job: {error}") from error


def _entry(line: str, path: Path, number: int) -> Entry:
    try:
        record = parse_json(line)
        record |= {"oov": tuple(record["oov"]), "unknown": tuple(map(tuple, record["unknown"]))}
        if not all(isinstance(record.get(key, ""), str) for key in TEXTS):
            raise TypeError(f"{', '.join(TEXTS)} are strings")
        return Entry(**record)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}:{number}: the journal is damaged: {error}; remove {path.parent} and start anew") from error
