"""Files that lie elsewhere, by their address: s3://bucket/lists.jsonl.gz, gs://..., and whatever else fsspec reaches.

Some addresses need a package of their own (s3fs for s3://, gcsfs for gs://); who lacks it is told its name.
"""

import shutil
from pathlib import Path
from typing import Any, BinaryIO, cast

from trflm.errors import InputError


def is_address(path: object) -> bool:
    return isinstance(path, str) and "://" in path


def located(text: str) -> Path | str:
    """What a user typed: an address as it stands, anything else as a path."""
    return text if is_address(text) else Path(text)


def open_address(address: str) -> BinaryIO:
    """Its bytes as they lie there; `.gz` unpacked."""
    fsspec, compression = _fsspec(address), "gzip" if address.endswith(".gz") else None
    try:
        return cast(BinaryIO, fsspec.open(address, "rb", compression=compression).open())
    except Exception as error:  # each file system has errors of its own
        raise InputError(f"{address}: cannot be read: {_said(error)}") from error


def exists(address: str) -> bool:
    """Whether a file or directory is there."""
    file_system, root = _file_system(address)
    try:
        return file_system.exists(root)
    except Exception as error:
        raise InputError(f"{address}: cannot be looked at: {_said(error)}") from error


def put_files(files: list[Path], address: str) -> None:
    """Copy files into the directory at an address, in this order."""
    file_system, root = _file_system(address)
    try:
        file_system.makedirs(root, exist_ok=True)
        for file in files:
            with open(file, "rb") as source, file_system.open(f"{root}/{file.name}", "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
    except Exception as error:
        raise InputError(f"{address}: cannot be written: {_said(error)}") from error


def _file_system(address: str) -> tuple[Any, str]:
    try:
        return _fsspec(address).core.url_to_fs(address.rstrip("/"))
    except (ImportError, ValueError) as error:
        raise InputError(f"{address}: cannot be reached: {_said(error)}") from error


def _fsspec(address: str) -> Any:
    try:
        import fsspec
    except ImportError as error:
        raise InputError(f"{address}: needs fsspec; pip install fsspec, or copy the file here") from error
    return fsspec


def _said(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0]
