"""Lines of text files: plain, .gz, .zst, standard input or elsewhere (s3://..., see remote.py), strict UTF-8.

Every reader of the project goes through here, so a bad byte or a damaged archive is reported in one way.
"""

import functools
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from trflm.errors import InputError
from trflm.files.remote import is_address, open_address
from trflm.files.zst import open_zst

BOM = "\ufeff"
TOO_LONG = "a line of more than 64 MB; is this a text? Break it into sentences"
BLOCK_BYTES = 1 << 18
_newest: dict[str, BinaryIO] = {}  # path -> what reads it now, for `share_read`
MOST_LINE = 1 << 26  # bytes: ten lines of a million words
MOST_WHOLE = 1 << 26  # bytes of a file that is read as a whole (JSON, TOML)


class Line(NamedTuple):
    number: int  # from 1
    text: str  # without the line end


@contextmanager
def open_binary(path: Path | str) -> Iterator[BinaryIO]:
    """The bytes of a file; `.gz` and `.zst` unpacked, `-` standard input, an address by fsspec. What cannot be opened is an
    InputError."""
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    if is_address(path):
        with open_address(str(path)) as file:
            yield file
        return
    try:
        opener = {".gz": gzip.open, ".zst": open_zst}.get(Path(path).suffix, open)
        file = cast(BinaryIO, opener(path, "rb"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    with file:
        _newest[str(path)] = file
        try:
            yield file
        finally:
            _newest.pop(str(path), None)


def regular(path: Path) -> Path:
    """A file in a directory of ours: a pipe in its place would be waited for."""
    if os.path.exists(path) and not os.path.isfile(path):  # these say no to names that no file can have
        raise InputError(f"{path}: is not a regular file")
    return path


def share_read(path: Path | str) -> float | None:
    """How much of a file has been read by who reads it now, in bytes as they lie on disk; None if that cannot be told."""
    file = _newest.get(str(path))
    try:
        if file is not None:
            return os.lseek(file.fileno(), 0, os.SEEK_CUR) / max(os.fstat(file.fileno()).st_size, 1)
    except (OSError, ValueError):  # a pipe, or not a file of the system
        pass
    return None


def read_lines(path: Path | str) -> Iterator[Line]:
    """Lines in order, from number 1; a byte order mark at the start is dropped, any line end (\\n, \\r\\n) too."""
    offset = 0
    number = 0
    with open_binary(path) as file:
        try:
            for number, raw in enumerate(_lines(file), 1):
                if len(raw) > MOST_LINE:
                    raise InputError(f"{path}:{number}: {TOO_LONG}")
                text = raw.decode()
                yield Line(number, text.removeprefix(BOM).rstrip("\r\n") if number == 1 else text.rstrip("\r\n"))
                offset += len(raw)
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise InputError(
                f"{path}:{number}: byte 0x{byte:02x} at offset {offset + error.start} is not UTF-8; "
                "convert the file to UTF-8 first (for instance with iconv)"
            ) from error
        except (EOFError, zlib.error, OSError) as error:
            raise InputError(f"{path}:{number + 1}: the file is damaged or cannot be read on: {error}") from error


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Lines with their ends; of one that is longer than any may be, as much as shows it."""
    if not isinstance(file, io.BufferedIOBase):  # a file of fsspec: its readline takes no limit
        return iter(file)
    return iter(functools.partial(file.readline, MOST_LINE + 1), b"")


def read_whole(path: Path | str, most: int = MOST_WHOLE) -> str:
    """The text of a file that is read at once. One that is no text, or larger than any such file can be, is a ValueError."""
    with open(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"more than {most:,} bytes")
    return content.decode()


def read_blocks(path: Path | str, size: int = BLOCK_BYTES) -> Iterator[str]:
    """The text of a file in pieces of whole lines, about `size` bytes each (a longer line is a piece of its own): several times
    as fast as line by line. Lines end in \\n; a byte order mark at the start is dropped."""
    offset, number, rest = 0, 1, b""  # of the first line that was not given yet
    with open_binary(path) as file:
        while True:
            try:
                block = file.read(size)
            except (EOFError, zlib.error, OSError) as error:
                raise InputError(f"{path}: after line {number}: damaged, or cannot be read on: {error}") from error
            whole, newline, rest = (rest + block).rpartition(b"\n")
            if len(rest) > MOST_LINE:
                raise InputError(f"{path}:{number + whole.count(newline) + 1 if newline else number}: {TOO_LONG}")
            raw, rest = (whole + newline, rest) if block else (rest, b"")
            try:
                text = raw.decode()
            except UnicodeDecodeError as error:
                line = number + raw.count(b"\n", 0, error.start)
                raise InputError(
                    f"{path}:{line}: byte 0x{raw[error.start]:02x} at offset {offset + error.start} is not UTF-8; "
                    "convert the file to UTF-8 first (for instance with iconv)"
                ) from error
            if text:
                yield text.removeprefix(BOM) if offset == 0 else text
            if not block:
                return
            offset, number = offset + len(raw), number + raw.count(b"\n")


def available_lines() -> Iterator[list[Line]]:
    """The lines of standard input as they come: at each step those that have come, at least one."""
    number, rest = 0, b""
    read = getattr(sys.stdin.buffer, "read1", None) or sys.stdin.buffer.read  # read1 returns what is there
    while True:
        block = read(1 << 16)
        whole, newline, rest = (rest + block).rpartition(b"\n")
        if len(rest) > MOST_LINE:
            raise InputError(f"-: after line {number}: {TOO_LONG}")
        if not block:  # the end: what is left is a line without its end
            whole, newline, rest = rest, rest[:1], b""
        lines = []
        for raw in whole.split(b"\n") if newline else ():
            number += 1
            try:
                text = raw.decode()
            except UnicodeDecodeError as error:
                byte = error.object[error.start]
                raise InputError(f"-:{number}: byte 0x{byte:02x} is not UTF-8; convert the text to UTF-8 first") from error
            lines.append(Line(number, text.removeprefix(BOM).rstrip("\r") if number == 1 else text.rstrip("\r")))
        if lines:
            yield lines
        if not block:
            return
