"""The vocabulary: which words a model knows, each by its number.

`<unk>` is always word 0 and stands for every word that is not in the list. A text that already contains `<unk>`
(as the Penn Treebank does) simply counts it as that word.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from pathlib import Path

import numpy as np
import torch

from trflm.errors import InputError
from trflm.files.reader import read_lines
from trflm.text.batch import Batch
from trflm.text.word_counts import count_words

UNK = "<unk>"


class Vocab:
    """Words numbered 0..V-1, `<unk>` first."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self.index = {word: number for number, word in enumerate(self.words)}
        if not self.words or self.words[0] != UNK:
            raise InputError(f"a vocabulary starts with {UNK}, this one with {self.words[:1]}")
        if len(self.index) != len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise InputError(f"the word {twice!r} is listed twice in the vocabulary")

    def __len__(self) -> int:
        return len(self.words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocab) and self.words == other.words

    def __hash__(self) -> int:
        return hash(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self.index

    def __repr__(self) -> str:
        return f"Vocab({len(self)} words)"

    @classmethod
    def from_text(cls, paths: Iterable[Path | str], size: int | None = None, min_count: int = 1) -> "Vocab":
        """The words of the texts seen at least `min_count` times, the most frequent `size` of them (`<unk>` included).

        Order: `<unk>`, then by falling count, equal counts alphabetically, so that the same text gives the same numbers.
        """
        ranks = ((-count, word) for word, count in count_words(paths) if count >= min_count and word != UNK)
        ranked = sorted(ranks) if size is None else heapq.nsmallest(max(size - 1, 0), ranks)
        return cls([UNK, *(word for _, word in ranked)])

    @classmethod
    def from_list(cls, path: Path | str) -> "Vocab":
        """One word a line, in order; `<unk>` is put first if it is not there. What `save` wrote comes back the same."""
        words: dict[str, int] = {}
        for line in read_lines(path):
            fields = line.text.split()
            if not fields:
                continue
            if len(fields) > 1:
                raise InputError(f"{path}:{line.number}: {line.text.strip()!r} is not one word; put one word on a line")
            if fields[0] in words:
                raise InputError(f"{path}:{line.number}: {fields[0]!r} was already on line {words[fields[0]]}; remove one")
            words[fields[0]] = line.number
        return cls([UNK, *(word for word in words if word != UNK)])

    def to_text(self) -> str:
        """The content of a word list file that `from_list` reads back."""
        return "".join(f"{word}\n" for word in self.words)

    def encode(self, words: Iterable[str]) -> np.ndarray:
        """Word numbers, int32; a word that is not in the vocabulary is `<unk>`, number 0."""
        return np.fromiter(map(self.index.get, words, repeat(0)), np.int32)

    def decode(self, ids: Iterable[int]) -> str:
        """The sentence of these word numbers, words separated by one blank."""
        return " ".join(self.words[number] for number in ids)

    def batch(self, sentences: "Batch | Sequence[str]") -> Batch:
        """A packed batch of sentences given as strings, or of a single one; a `Batch` passes through unchanged."""
        if isinstance(sentences, Batch):
            return sentences
        split = [sentence.split() for sentence in ([sentences] if isinstance(sentences, str) else sentences)]
        for number, words in enumerate(split):
            if not words:
                raise InputError(f"sentence {number} has no words; leave it out")
        ids_N = torch.from_numpy(self.encode(chain.from_iterable(split))).long()
        return Batch(ids_N, torch.tensor([len(words) for words in split], dtype=torch.int64))

    def sentences(self, batch: Batch) -> list[str]:
        """The batch as strings."""
        return [self.decode(ids.tolist()) for ids in batch.ids_N.split(batch.lengths_B.tolist())]
