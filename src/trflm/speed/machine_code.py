"""Compiled loops that numba keeps on disk are used only if they are what was written: each file begins with the sha256 of the
rest. One that is damaged is as good as none: the loop is compiled again, and takes its place.
"""

import hashlib
import pickle
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile

HASH_BYTES = 32


def check_what_is_kept(dispatcher: Any) -> None:
    """From now on what the function (as numba.njit made it) keeps on disk is checked."""
    dispatcher._cache._cache_file.__class__ = CheckedFile  # numba has no other way in


class CheckedFile(IndexDataCacheFile):
    """One function's index of signatures, and a file of machine code for each."""

    def _load_index(self) -> dict:
        try:
            return super()._load_index()
        except Exception:  # unpickling what is damaged may raise anything
            return {}

    def _load_data(self, name: str) -> Any:
        content = Path(self._data_path(name)).read_bytes()
        if hashlib.sha256(content[HASH_BYTES:]).digest() != content[:HASH_BYTES]:
            raise OSError(f"{name}: damaged")  # which numba takes for a file that is not there
        return pickle.loads(content[HASH_BYTES:])

    def _save_data(self, name: str, data: Any) -> None:
        packed = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(hashlib.sha256(packed).digest() + packed)
