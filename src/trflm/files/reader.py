"""Lines of text files: plain, .gz or standard input, strict UTF-8.

Every reader of the project goes through here, so a bad byte or a damaged archive is reported in one way.
"""

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from trflm.errors import InputError

BOM = "\ufeff"


class Line(NamedTuple):
    number: int  # from 1
    text: str  # without the line end


@contextmanager
def open_binary(path: Path | str) -> Iterator[BinaryIO]:
    """The bytes of a file; `.gz` unpacked, `-` standard input. A file that cannot be opened is an InputError."""
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        file = cast(BinaryIO, gzip.open(path)) if str(path).endswith(".gz") else open(path, "rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    with file:
        yield file


def read_lines(path: Path | str) -> Iterator[Line]:
    """Lines in order, from number 1; a byte order mark at the start is dropped, any line end (\\n, \\r\\n) too."""
    offset = 0
    number = 0
    with open_binary(path) as file:
        try:
            for number, raw in enumerate(file, 1):
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


def available_lines() -> Iterator[list[Line]]:
    """The lines of standard input as they come: at each step those that have come, at least one."""
    number, rest = 0, b""
    read = getattr(sys.stdin.buffer, "read1", None) or sys.stdin.buffer.read  # read1 returns what is there
    while True:
        block = read(1 << 16)
        whole, newline, rest = (rest + block).rpartition(b"\n")
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
