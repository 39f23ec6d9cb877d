"""Files out: plain, .gz or standard output, complete or not there at all.

What is being written lies beside its destination under a hidden name and is renamed when it is whole, so an interrupted
command never leaves half a result that looks like a result.
"""

import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from trflm.errors import InputError


@contextmanager
def write_text(path: Path | str) -> Iterator[TextIO]:
    """A UTF-8 text file to write into; `.gz` packed, `-` standard output. Appears under its name only on success."""
    if str(path) == "-":
        yield sys.stdout
        return
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path}: is a directory; give a file name")
    try:
        descriptor, partial = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}; give a directory that exists") from error
    try:
        with os.fdopen(descriptor, "wb") as raw:
            if path.suffix == ".gz":  # no name and time inside, so that the same content gives the same bytes
                with (
                    gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed,
                    TextIOWrapper(packed, encoding="utf-8", newline="\n") as file,
                ):
                    yield file
            else:
                with TextIOWrapper(raw, encoding="utf-8", newline="\n") as file:
                    yield file
        os.chmod(partial, 0o666 & ~_umask())
        os.replace(partial, path)
    finally:
        Path(partial).unlink(missing_ok=True)


@contextmanager
def write_directory(path: Path | str) -> Iterator[Path]:
    """A directory to write files into. Appears under its name only on success; one that exists already is refused."""
    path = Path(path)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError(f"{path}: exists already; give a new name or remove it first")
    try:
        partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent))
    except OSError as error:
        raise InputError(f"{path}: cannot be made: {error.strerror}; make {path.parent} first") from error
    try:
        yield partial
        partial.chmod(0o777 & ~_umask())
        os.replace(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
