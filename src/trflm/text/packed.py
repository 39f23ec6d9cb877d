"""A text on disk, for more text than memory holds: word numbers in blocks, each read and checked when it is needed.

The file is MAGIC, then block after block (the lengths of its sentences in uint32, then its word numbers in uint16, or uint32
for a vocabulary beyond that), then a description in JSON (the sizes of the blocks, their CRCs, the counts of words and of
lengths), then the size and the CRC of that. A block has about BLOCK_WORDS words, so that what is held of a text does not grow
with it but for 40 bytes a block.

Shapes: B sentences, N words, K blocks or chosen sentences, V words of the vocabulary.
"""

import contextlib
import hashlib
import json
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trflm.errors import InputError
from trflm.files.writer import replacing
from trflm.text.batch import Batch, pack

MAGIC = b"trflm packed 1\n\0"
BLOCK_WORDS = 1 << 16
TAIL = struct.Struct("<QI")  # size and CRC of the description


class Damaged(InputError):
    """A packed text that is not what was written."""


@dataclass(frozen=True)
class Tally:
    """What happened on the way in; see `Corpus`."""

    empty_lines: int = 0
    too_long: int = 0
    unknown_words: int = 0
    unknown_types: int = 0


@dataclass(frozen=True, eq=False)
class PackedText:
    """The sentences of a packed file. It offers what a `Batch` of the same sentences would, as far as that takes no more memory
    than a part of it: `Text` is either."""

    path: Path
    handle: int  # stays open: the text is there as long as this process, whatever becomes of its name
    digest: str  # sha256 of the blocks, in order
    word_bytes: int
    sentences_K: np.ndarray
    words_K: np.ndarray
    crc_K: np.ndarray
    count_V: np.ndarray
    count_of_length: np.ndarray
    tally: Tally

    def __len__(self) -> int:
        return int(self.sentences_K.sum())

    @property
    def n_words(self) -> int:
        return int(self.words_K.sum())

    @property
    def n_blocks(self) -> int:
        return len(self.words_K)

    @cached_property
    def first_K1(self) -> np.ndarray:
        """[K + 1] the number of the first sentence of each block, and how many there are."""
        return np.concatenate([[0], np.cumsum(self.sentences_K)])

    @cached_property
    def _place_K1(self) -> np.ndarray:
        """[K + 1] where each block begins in the file."""
        sizes_K = 4 * self.sentences_K + self.word_bytes * self.words_K
        return np.concatenate([[0], np.cumsum(sizes_K)]) + len(MAGIC)

    def block(self, k: int) -> Batch:
        """The sentences of one block, ids in int32."""
        place, end = self._place_K1[k : k + 2].tolist()
        raw = os.pread(self.handle, end - place, place)
        if len(raw) != end - place or zlib.crc32(raw) != self.crc_K[k]:
            raise Damaged(f"{self.path}: damaged in block {k} of {self.n_blocks}; remove it: it is made anew from the text")
        B = int(self.sentences_K[k])
        lengths_B = np.frombuffer(raw, np.uint32, B).astype(np.int64)
        ids_N = np.frombuffer(raw, np.uint16 if self.word_bytes == 2 else np.uint32, offset=4 * B).astype(np.int32)
        return Batch(torch.from_numpy(ids_N), torch.from_numpy(lengths_B))

    def parts(self) -> Iterator[Batch]:
        """All sentences in order, a block at a time."""
        return map(self.block, range(self.n_blocks))

    def select(self, index_K: Tensor) -> Batch:
        """The sentences of these numbers, in this order (ids in int64). Each block that has one is read once."""
        index = index_K.numpy()
        order = np.argsort(index, kind="stable")
        block_of = np.searchsorted(self.first_K1, index[order], side="right") - 1
        ids: list[Tensor] = []
        for k in np.unique(block_of).tolist():
            wanted = index[order[block_of == k]] - self.first_K1[k]
            some = self.block(k).select(torch.from_numpy(wanted))
            ids += some.ids_N.split(some.lengths_B.tolist())
        in_order = [ids[at] for at in np.argsort(order).tolist()]
        lengths_K = torch.tensor([len(one) for one in in_order], dtype=torch.int64)
        return Batch(torch.cat(in_order) if in_order else torch.empty(0, dtype=torch.int64), lengths_K)

    def some(self, n: int, rng: torch.Generator) -> Batch:
        """n of the sentences, or all if there are fewer, drawn without replacement, in random order."""
        if n >= len(self):
            return self.select(torch.randperm(len(self), generator=rng))
        chosen: dict[int, None] = {}
        while len(chosen) < n:
            chosen |= dict.fromkeys(torch.randint(len(self), (n,), generator=rng).tolist())
        return self.select(torch.tensor(list(chosen)[:n]))

    def word_counts(self, n_words: int) -> Tensor:
        """[V] how often each word occurs, int64."""
        return torch.from_numpy(np.pad(self.count_V, (0, n_words - len(self.count_V))))

    def length_counts(self) -> Tensor:
        """[m + 1] how many sentences have each length, int64."""
        return torch.from_numpy(self.count_of_length)

    def content(self) -> list[Tensor]:
        """Numbers that no other text has."""
        return [torch.tensor(list(bytes.fromhex(self.digest)))]

    def whole(self) -> Batch:
        """All sentences in memory, at 4 bytes a word."""
        return pack(list(self.parts()))


Text = Batch | PackedText


def write_packed(
    path: Path, batches: Iterable[tuple[np.ndarray, np.ndarray]], n_words: int, tally: Callable[[], Tally]
) -> None:
    """Pack sentences, given as (word numbers, lengths) of some at a time; `tally()` is asked for when all have come."""
    dtype = np.uint16 if n_words <= 1 << 16 else np.uint32
    digest, count_V, count_of_length = hashlib.sha256(), np.zeros(n_words, np.int64), np.zeros(1, np.int64)
    blocks: list[tuple[int, int, int]] = []
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(MAGIC)
            for ids, lengths in in_blocks(batches):
                raw = lengths.astype(np.uint32).tobytes() + ids.astype(dtype).tobytes()
                file.write(raw)
                digest.update(raw)
                blocks.append((len(lengths), len(ids), zlib.crc32(raw)))
                count_V += np.bincount(ids, minlength=n_words)
                of_length = np.bincount(lengths, minlength=len(count_of_length))
                of_length[: len(count_of_length)] += count_of_length
                count_of_length = of_length
            about = {
                "digest": digest.hexdigest(), "word_bytes": dtype().itemsize, "blocks": blocks, "words": count_V.tolist(),
                "lengths": count_of_length.tolist(), "tally": asdict(tally()),
            }  # fmt: skip
            text = json.dumps(about).encode()
            file.write(text + TAIL.pack(len(text), zlib.crc32(text)))
    except OSError as error:
        raise InputError(
            f"{path}: the packed text cannot be written: {error.strerror or error}; it takes {dtype().itemsize} bytes a word. "
            "Free some space, or name a directory on another disk in the environment variable XDG_CACHE_HOME"
        ) from error


def in_blocks(batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The same sentences, BLOCK_WORDS words or a little more at a time."""
    waiting: list[tuple[np.ndarray, np.ndarray]] = []
    for batch in batches:
        waiting.append(batch)
        if sum(len(ids) for ids, _ in waiting) >= BLOCK_WORDS:
            yield joined(waiting)
            waiting = []
    if any(len(lengths) for _, lengths in waiting):
        yield joined(waiting)


def joined(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([ids for ids, _ in parts]), np.concatenate([lengths for _, lengths in parts])


def open_packed(path: Path) -> PackedText:
    """The text of a packed file, of which every block was read and found whole; else FileNotFoundError, or Damaged."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = PackedText(path, handle, **description(path, handle))
        digest = hashlib.sha256()
        for k in range(text.n_blocks):
            place, end = text._place_K1[k : k + 2].tolist()
            digest.update(os.pread(handle, end - place, place))
        if digest.hexdigest() != text.digest:
            raise Damaged(f"{path}: its content is not what was written")
        return text
    except BaseException:
        os.close(handle)
        raise


def description(path: Path, handle: int) -> dict[str, Any]:
    """What the end of a packed file says of the rest."""
    size = os.fstat(handle).st_size
    with contextlib.suppress(ValueError, KeyError, TypeError, struct.error):
        length, crc = TAIL.unpack(os.pread(handle, TAIL.size, max(size - TAIL.size, 0)))
        text = os.pread(handle, length, size - TAIL.size - length) if length <= size - TAIL.size else b""
        if os.pread(handle, len(MAGIC), 0) == MAGIC and len(text) == length and zlib.crc32(text) == crc:
            about = json.loads(text)
            sentences, words, crcs = np.array(about["blocks"], np.int64).reshape(-1, 3).T
            return {
                "digest": about["digest"], "word_bytes": about["word_bytes"], "sentences_K": sentences, "words_K": words,
                "crc_K": crcs, "count_V": np.array(about["words"]), "count_of_length": np.array(about["lengths"]),
                "tally": Tally(**about["tally"]),
            }  # fmt: skip
    raise Damaged(f"{path}: not a packed text, or a damaged one")
