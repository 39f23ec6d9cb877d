"""Text files as packed word numbers: in memory at 4 bytes a word (`read_corpus`), or on disk (`pack_corpus`).

Policy, stated once: an empty line is skipped and counted; a sentence longer than `max_length` is left out and counted
(never cut: half a sentence is not a sentence); a word outside the vocabulary becomes `<unk>` and is counted.
"""

import contextlib
import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import torch

from trflm.errors import InputError
from trflm.files.cache import cache_directory
from trflm.files.reader import read_blocks
from trflm.text.batch import Batch
from trflm.text.packed import Damaged, PackedText, Tally, Text, open_packed, write_packed
from trflm.text.vocab import UNK, Vocab

MOST_TYPES = 1 << 20  # different unknown words that are counted exactly; beyond, their number is an estimate
T = TypeVar("T", bound=Text, covariant=True)


@dataclass(frozen=True)
class Corpus(Generic[T]):
    """The sentences of a text and what happened on the way in."""

    path: str
    sentences: T
    empty_lines: int
    too_long: int  # sentences left out
    unknown_words: int  # tokens that are <unk>, whether written so in the text or not in the vocabulary
    unknown_types: int = (
        0  # how many words <unk> stands for: those not in the vocabulary, and one for each <unk> that is written
    )

    def summary(self) -> str:
        words = self.sentences.n_words
        parts = [f"{self.path}: {len(self.sentences):,} sentences, {words:,} words"]
        parts.append(f"{self.unknown_words / max(words, 1):.2%} <unk>")
        if self.empty_lines:
            parts.append(f"{self.empty_lines:,} empty lines skipped")
        if self.too_long:
            parts.append(f"{self.too_long:,} over-long sentences left out")
        if isinstance(self.sentences, PackedText):
            parts.append(f"read from {self.sentences.path}")
        return ", ".join(parts)


def read_corpus(path: Path | str | Sequence[str], vocab: Vocab, max_length: int | None = None) -> Corpus[Batch]:
    """Read one sentence a line, from a file or from several. Raises InputError if no sentence is left."""
    ids, lengths = array("i"), array("i")
    encoder = Encoder(vocab, max_length)
    for some_ids, some_lengths in encoder.encode(files_of(path)):
        ids.extend(some_ids)
        lengths.extend(some_lengths)
    encoder.check(len(lengths), path)
    ids_N = torch.from_numpy(np.frombuffer(ids, np.int32))  # shares the array's memory
    lengths_B = torch.from_numpy(np.frombuffer(lengths, np.int32).astype(np.int64))
    return corpus_of(path, Batch(ids_N, lengths_B), encoder.tally())


def pack_corpus(paths: Sequence[str], vocab: Vocab, content: str, max_length: int | None = None) -> Corpus[PackedText]:
    """The same on disk: packed into the cache, unless it is there already from texts of the same `content` (see `content_of`).
    A packed file that is damaged is made anew."""
    made_from = f"packed, max_length={max_length} content={content}\n{vocab.to_text()}"
    path = cache_directory() / f"{hashlib.sha256(made_from.encode()).hexdigest()}.packed"
    text = None
    with contextlib.suppress(OSError, Damaged):
        text = open_packed(path)
    if text is None:
        encoder = Encoder(vocab, max_length)
        batches = ((np.frombuffer(ids, np.int32), np.frombuffer(lengths, np.int32)) for ids, lengths in encoder.encode(paths))
        write_packed(path, batches, len(vocab), encoder.tally)
        text = open_packed(path)
    if not len(text):
        Encoder(vocab, max_length, text.tally).check(0, paths)
    return corpus_of(paths, text, text.tally)


def content_of(paths: Sequence[str]) -> str:
    """The sha256 of the bytes of these files, in this order."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            with open(path, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    return digest.hexdigest()


def corpus_of(path: Path | str | Sequence[str], text: T, tally: Tally) -> "Corpus[T]":
    return Corpus(name_of(path), text, tally.empty_lines, tally.too_long, tally.unknown_words, tally.unknown_types)


def files_of(path: Path | str | Sequence[str]) -> list[str]:
    return [str(path)] if isinstance(path, Path | str) else list(path)


def name_of(path: Path | str | Sequence[str]) -> str:
    first, *others = files_of(path)
    return f"{first} and {len(others)} more" if others else first


class Encoder:
    """From lines to word numbers, counting what happens."""

    def __init__(self, vocab: Vocab, max_length: int | None, tally: Tally | None = None) -> None:
        self.index, self.max_length = _Index(vocab.index), max_length
        before = tally or Tally()
        self.empty, self.too_long, self.unknown_words, self.written = before.empty_lines, before.too_long, 0, 0
        self.unknown = DistinctWords()

    def encode(self, paths: Sequence[str]) -> "Iterator[tuple[array[int], array[int]]]":
        """(word numbers, lengths) of the sentences of these files, in order, some at a time."""
        number_of, most = self.index.__getitem__, self.max_length
        for path in paths:
            for text in read_blocks(path):
                ids, lengths = array("i"), array("i")
                lines = text.split("\n")
                if not lines[-1]:
                    lines.pop()  # after the last line end
                for line in lines:
                    words = line.split()
                    if not words:
                        self.empty += 1
                    elif most is not None and len(words) > most:
                        self.too_long += 1
                    else:
                        numbers = list(map(number_of, words))
                        if 0 in numbers:
                            self._note([word for word, number in zip(words, numbers, strict=True) if number == 0])
                        ids.extend(numbers)
                        lengths.append(len(words))
                yield ids, lengths

    def _note(self, missing: list[str]) -> None:
        self.unknown_words += len(missing)
        self.written += missing.count(UNK)
        self.unknown.update(missing)

    def tally(self) -> Tally:
        """Of the sentences up to now."""
        return Tally(self.empty, self.too_long, self.unknown_words, self.unknown.number() + self.written)

    def check(self, n_sentences: int, path: Path | str | Sequence[str]) -> None:
        if not n_sentences:
            why = f"; all {self.too_long} are longer than max_length = {self.max_length}" if self.too_long else ""
            raise InputError(f"{name_of(path)}: there is no sentence to read{why}")


class _Index(dict[str, int]):
    """The number of each word; 0 for others."""

    def __missing__(self, word: str) -> int:
        return 0


class DistinctWords:
    """How many different words came, other than <unk>: exact up to MOST_TYPES, then an estimate from those words alone whose
    hash ends in `level` zero bits (Flajolet 1990; the error is about 1 / sqrt(MOST_TYPES / 2), 0.14 %)."""

    def __init__(self, most: int = MOST_TYPES) -> None:
        self.words: set[str] = set()
        self.most, self.level = most, 0

    def update(self, words: list[str]) -> None:
        self.words.update(words if not self.level else filter(self._chosen, words))
        self.words.discard(UNK)
        while len(self.words) > self.most:
            self.level += 1
            self.words = set(filter(self._chosen, self.words))

    def _chosen(self, word: str) -> bool:
        bits = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
        return bits & ((1 << self.level) - 1) == 0

    def number(self) -> int:
        return len(self.words) << self.level
