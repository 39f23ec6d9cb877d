"""[data]: the text of a recipe and its vocabulary, as the recipe names them and as they are read.

A training text of more than `stream_above` megabytes is packed into the cache and read from there in blocks (`PackedText`), so
that the memory of a run does not grow with it. What is in the cache is found again by the content of the files.
"""

import glob
import os
from dataclasses import dataclass
from pathlib import Path

import torch

from trflm.errors import InputError
from trflm.experiment.paths import matching
from trflm.files.cache import cached
from trflm.kinds import PathName
from trflm.ranges import Amount, Count, Steps
from trflm.text import Batch, Corpus, Text, Vocab, read_corpus
from trflm.text.corpus import content_of, pack_corpus

UNPACKED = 4  # how many times larger a packed text (.gz, .zst) is taken to be


@dataclass(frozen=True)
class DataConfig:
    """[data]: the text and the vocabulary."""

    train: PathName | tuple[PathName, ...] = ""  # the training text, one sentence a line: a file, a pattern (text/*.gz), a list
    valid: PathName = ""  # dev text; none if empty
    vocab: PathName = ""  # a word list; if empty the vocabulary is made from train
    vocab_size: Steps = 0  # keep the most frequent words, <unk> included; 0: all
    min_count: Count = 1  # keep words seen at least this often
    max_length: Amount = 0  # longer sentences are left out of training; 0: the longest there is
    stream_above: Steps = 500  # megabytes: a larger training text is packed into the cache and read from there, in blocks

    def __post_init__(self) -> None:
        if not self.train:
            raise ValueError("train is missing: give the training text, for instance --set data.train=FILE")
        if min(self.vocab_size, self.max_length, self.stream_above) < 0 or self.min_count < 1:
            raise ValueError("vocab_size, max_length and stream_above must not be negative, min_count must be at least 1")
        if self.vocab and (self.vocab_size or self.min_count != 1):
            raise ValueError("vocab is a fixed word list: leave out vocab_size and min_count")

    def read(self) -> "Data":
        files = files_of(self.train)
        for key, file in (("valid", self.valid), ("vocab", self.vocab)):
            if file and not Path(file).exists():
                raise no_such_file(key, file)
        if megabytes(files) > self.stream_above:
            content = content_of(files)
            vocab = self._vocab(files, content)
            train = pack_corpus(files, vocab, content, self.max_length or None)
        else:
            vocab = self._vocab(files)
            train = read_corpus(files, vocab, self.max_length or None)
        return Data(vocab, train, read_corpus(self.valid, vocab) if self.valid else None)

    def _vocab(self, files: list[str], content: str = "") -> Vocab:
        """The vocabulary; of a text whose `content` is given it is kept in the cache."""
        if self.vocab:
            return Vocab.from_list(self.vocab)

        def compute() -> Vocab:
            return Vocab.from_text(files, size=self.vocab_size or None, min_count=self.min_count)

        if not content:
            return compute()
        what = f"vocabulary, size={self.vocab_size} min_count={self.min_count} content={content}"
        kept = cached(what, (), lambda: {"words": torch.frombuffer(bytearray(compute().to_text(), "utf-8"), dtype=torch.uint8)})
        return Vocab(bytes(kept["words"].numpy()).decode().split("\n")[:-1])


@dataclass(frozen=True)
class Data:
    """The text of a recipe, read."""

    vocab: Vocab
    train: Corpus[Text]
    dev: Corpus[Batch] | None


def files_of(names: str | tuple[str, ...]) -> list[str]:
    """The files of data.train: each name is that of a file, or a pattern for some, which come in the order of their names."""
    files: list[str] = []
    for name in (names,) if isinstance(names, str) else names:
        if os.path.isdir(name):
            raise InputError(f"data.train = {name!r}: is a directory; name its files, as in {os.path.join(name, '*.txt')!r}")
        if os.path.exists(name):
            files.append(name)
        elif glob.has_magic(name):
            found = sorted(file for file in matching(name) if not os.path.isdir(file))
            if not found:
                raise InputError(
                    f"data.train = {name!r}: no file has such a name, neither beside the recipe nor from the working "
                    "directory; a * stands for any part of a name, ** for any directories"
                )
            files += found
        else:
            raise no_such_file("train", name)
    return files


def no_such_file(key: str, file: str) -> InputError:
    return InputError(
        f"data.{key} = {file!r}: there is no such file, neither beside the recipe nor from the working directory; "
        f"give yours by --set data.{key}=FILE"
    )


def megabytes(files: list[str]) -> float:
    """The size of a text, roughly: what is packed is taken to be UNPACKED times as large."""
    return sum(os.path.getsize(file) * (UNPACKED if file.endswith((".gz", ".zst")) else 1) for file in files) / 1e6
