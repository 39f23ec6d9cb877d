"""Files out: plain, .gz or standard output, complete or not there at all. Every file of the project is written by `replacing`,
but for logs that grow (`open_to_append`).

What is being written lies beside its destination under a name of its own and is renamed when it is whole, so an interrupted
command never leaves half a result that looks like a result. No file is ever written through a link.
"""

import gzip
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedRandom, TextIOWrapper
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from trflm.errors import InputError


@contextmanager
def replacing(path: Path, durable: bool = False) -> Iterator[BinaryIO]:
    """A new file to write into, which takes the place of `path` in one move, on success only; else an OSError, and `path` is
    as it was.

    `durable` is for a directory that one process at a time writes: after a loss of power, too, the file is whole, and a
    process that is killed leaves at most one `.part`, which the next one removes.
    """
    partial = path.with_name(f"{path.name}.part") if durable else _beside(path)
    if durable:
        partial.unlink(missing_ok=True)
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(partial, path)
        if durable:
            _sync_directory(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def open_to_append(path: Path) -> TextIO:
    """A log to go on with: a regular file without a second name, or an InputError."""
    return TextIOWrapper(append_bytes(path), encoding="utf-8")


def append_bytes(path: Path) -> BufferedRandom:
    """The same, as bytes that may be read and cut too."""
    check_regular(path)
    file = cast(BufferedRandom, open(path, "a+b", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666)))
    if os.fstat(file.fileno()).st_nlink != 1:
        file.close()
        raise InputError(f"{path}: has another name as well (a hard link), and what has that name would change too; copy it")
    return file


def check_regular(path: Path, directory: bool = False) -> None:
    """What we write to, if it is there, is a file (or a directory) itself: no link that leads elsewhere, no pipe, no device."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not (stat.S_ISDIR(mode) if directory else stat.S_ISREG(mode)):
        found = "a symbolic link" if stat.S_ISLNK(mode) else "something else"
        wanted = "a directory" if directory else "a regular file"
        raise InputError(
            f"{path}: is {found} where {wanted} is expected; nothing is written there. Remove it, or put a copy there"
        )


@contextmanager
def write_text(path: Path | str) -> Iterator[TextIO]:
    """A UTF-8 text file to write into; `.gz` packed, `-` standard output. Appears under its name only on success, unless it is
    a device or a pipe, which is written into."""
    if str(path) == "-":
        yield sys.stdout
        return
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path}: is a directory; give a file name")
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open(path, "wb") if _is_device(path) else replacing(path))
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}; give a directory that exists") from error
        if path.suffix == ".gz":  # no name and time inside, so that the same content gives the same bytes
            file = stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0))
        yield stack.enter_context(TextIOWrapper(file, encoding="utf-8", newline="\n"))


@contextmanager
def write_directory(path: Path | str) -> Iterator[Path]:
    """A directory to write files into. Appears under its name only on success; one that exists already is refused."""
    path = Path(path)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError(f"{path}: exists already; give a new name or remove it first")
    partial = _beside(path)
    try:
        partial.mkdir()
    except OSError as error:
        raise InputError(f"{path}: cannot be made: {error.strerror}; make {path.parent} first") from error
    try:
        yield partial
        os.replace(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _is_device(path: Path) -> bool:
    """/dev/null, /dev/stdout, a pipe: what is written goes into it, and it stays what it is."""
    return path.is_char_device() or path.is_fifo() or path.parent == Path("/dev")


def _beside(path: Path) -> Path:
    """A hidden name that nobody else uses."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")


def _sync_directory(directory: Path) -> None:
    """Make a rename durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
