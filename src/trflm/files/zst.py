"""Files packed by Zstandard (.zst), unpacked as they are read. A file that ends in the middle of a frame is an error, not an
end."""

import io
from pathlib import Path
from typing import Any

from trflm.errors import InputError

PACKED_BYTES = 1 << 17  # read at once


def open_zst(path: Path | str, mode: str = "rb") -> io.BufferedReader:
    """The bytes in a .zst file, of any number of frames."""
    try:
        import zstandard
    except ImportError as error:
        raise InputError(f"{path}: reading .zst needs zstandard: pip install 'trflm[zst]', or unpack the file first") from error
    return io.BufferedReader(_Frames(open(path, mode), zstandard), 1 << 18)


class _Frames(io.RawIOBase):
    """Frame after frame of a packed file."""

    def __init__(self, file: Any, zstandard: Any) -> None:
        self.file, self.zstandard = file, zstandard
        self.frame: Any = None  # the one that has begun
        self.packed = self.unpacked = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self.unpacked:
            self.packed = self.packed or self.file.read(PACKED_BYTES)
            if not self.packed:
                if self.frame is not None:
                    raise EOFError("it ends in the middle of a frame")
                return 0
            self.frame = self.frame or self.zstandard.ZstdDecompressor().decompressobj()
            try:
                self.unpacked = self.frame.decompress(self.packed)
            except self.zstandard.ZstdError as error:
                raise OSError(str(error)) from error
            self.packed = b""
            if self.frame.eof:
                self.packed, self.frame = self.frame.unused_data, None
        n = min(len(buffer), len(self.unpacked))
        buffer[:n], self.unpacked = self.unpacked[:n], self.unpacked[n:]
        return n

    def fileno(self) -> int:
        return self.file.fileno()

    def close(self) -> None:
        self.file.close()
        super().close()
