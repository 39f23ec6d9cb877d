"""A text file as one packed Batch of word numbers, at 4 bytes a word.

Policy, stated once: an empty line is skipped and counted; a sentence longer than `max_length` is left out and counted
(never cut: half a sentence is not a sentence); a word outside the vocabulary becomes `<unk>` and is counted.
"""

from array import array
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from trflm.errors import InputError
from trflm.files.reader import read_lines
from trflm.text.batch import Batch
from trflm.text.vocab import UNK, Vocab


@dataclass(frozen=True)
class Corpus:
    """The sentences of a text and what happened on the way in."""

    path: str
    sentences: Batch
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
        return ", ".join(parts)


def read_corpus(path: Path | str, vocab: Vocab, max_length: int | None = None) -> Corpus:
    """Read one sentence a line. Raises InputError if no sentence is left."""
    ids, lengths = array("i"), array("i")
    empty = too_long = written = 0
    unknown: set[str] = set()
    get = vocab.index.get
    for line in read_lines(path):
        words = line.text.split()
        if not words:
            empty += 1
        elif max_length is not None and len(words) > max_length:
            too_long += 1
        else:
            numbers = [get(word, 0) for word in words]
            if 0 in numbers:
                missing = [word for word, number in zip(words, numbers, strict=True) if number == 0]
                written += missing.count(UNK)
                unknown.update(missing)
            ids.extend(numbers)
            lengths.append(len(words))
    if not lengths:
        why = f"; all {too_long} are longer than max_length = {max_length}" if too_long else ""
        raise InputError(f"{path}: there is no sentence to read{why}")
    ids_N = torch.from_numpy(np.frombuffer(ids, np.int32))  # shares the array's memory
    lengths_B = torch.from_numpy(np.frombuffer(lengths, np.int32).astype(np.int64))
    unknown_words = len(ids_N) - int(torch.count_nonzero(ids_N))
    unknown_types = len(unknown - {UNK}) + written
    return Corpus(str(path), Batch(ids_N, lengths_B), empty, too_long, unknown_words, unknown_types)
