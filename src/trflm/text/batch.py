"""Packed sentences: all words in one row, no padding anywhere.

Shapes: B sentences, N words in all, U distinct ones, K chosen sentences.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from trflm.speed.distinct import distinct

SCORING_WORDS = 1 << 15  # how many words are scored at once: bounds the memory of a call


@dataclass(frozen=True, eq=False)
class Batch:
    """B sentences of N words in all: sentence b is `ids_N[starts_B[b] : starts_B[b] + lengths_B[b]]`.

    A whole corpus is a Batch too, with `ids_N` in int32 to stay at 4 bytes a word; `select` returns int64.
    """

    ids_N: Tensor
    lengths_B: Tensor

    def __post_init__(self) -> None:
        if len(self.lengths_B) and int(self.lengths_B.min()) < 1:
            raise ValueError("a sentence has at least one word")
        if int(self.lengths_B.sum()) != len(self.ids_N):
            raise ValueError(f"lengths add up to {int(self.lengths_B.sum())}, but there are {len(self.ids_N)} words")

    def __len__(self) -> int:
        return len(self.lengths_B)

    @property
    def n_words(self) -> int:
        return len(self.ids_N)

    @property
    def device(self) -> torch.device:
        return self.ids_N.device

    @cached_property
    def starts_B(self) -> Tensor:
        """Where each sentence starts in `ids_N`."""
        return self.lengths_B.cumsum(0) - self.lengths_B

    @cached_property
    def distinct_words(self) -> tuple[Tensor, Tensor]:
        """([U] the words that occur, int64; [N] the number of each word among them, int32)."""
        word_N, place_U = distinct([self.ids_N.int()], 1)
        return self.ids_N.index_select(0, place_U).long(), word_N

    @cached_property
    def sentence_N(self) -> Tensor:
        """The sentence each word belongs to."""
        index_B = torch.arange(len(self), device=self.device)
        return torch.repeat_interleave(index_B, self.lengths_B, output_size=self.n_words)

    @cached_property
    def position_N(self) -> Tensor:
        """The place of each word in its sentence, from 0."""
        return torch.arange(self.n_words, device=self.device) - self.starts_B[self.sentence_N]

    @cached_property
    def remaining_N(self) -> Tensor:
        """How many words of its sentence follow each word."""
        return self.lengths_B[self.sentence_N] - 1 - self.position_N

    def select(self, index_K: Tensor) -> "Batch":
        """The sentences of these numbers, in this order, packed anew (ids in int64)."""
        lengths_K = self.lengths_B[index_K].long()
        total = int(lengths_K.sum())
        shift_K = self.starts_B[index_K] - (lengths_K.cumsum(0) - lengths_K)
        source = torch.arange(total, device=self.device) + torch.repeat_interleave(shift_K, lengths_K, output_size=total)
        return Batch(self.ids_N[source].long(), lengths_K)

    def parts(self) -> Iterator["Batch"]:
        """All sentences in order, some at a time."""
        return in_parts(self)

    def some(self, n: int, rng: torch.Generator) -> "Batch":
        """n of the sentences, or all if there are fewer, drawn without replacement, in random order."""
        return self.select(torch.randperm(len(self), generator=rng)[:n].to(self.device))

    def word_counts(self, n_words: int) -> Tensor:
        """[V] how often each word occurs, int64."""
        return torch.bincount(self.ids_N, minlength=n_words)

    def length_counts(self) -> Tensor:
        """[m + 1] how many sentences have each length, int64."""
        return torch.bincount(self.lengths_B.cpu().long())

    def content(self) -> list[Tensor]:
        """Numbers that no other text has."""
        return [self.ids_N, self.lengths_B]

    def whole(self) -> "Batch":
        """All sentences in memory."""
        return self

    def sum_words(self, value_N: Tensor) -> Tensor:
        """[N] -> [B]: the sum of a per-word quantity over each sentence."""
        if is_long(self):
            return value_N.sum()[None]  # by pairs: word by word, a million roundings add up
        return value_N.new_zeros(len(self)).index_add(0, self.sentence_N, value_N)

    def long(self) -> "Batch":
        """The same sentences with ids in int64, as torch's indexing wants them."""
        return Batch(self.ids_N.long(), self.lengths_B.long())

    def to(self, device: torch.device | str) -> "Batch":
        if torch.device(device) == self.device:
            return self
        return Batch(self.ids_N.to(device), self.lengths_B.to(device))


def pack(batches: list[Batch]) -> Batch:
    """Several batches as one, in order."""
    return Batch(torch.cat([b.ids_N for b in batches]), torch.cat([b.lengths_B for b in batches]))


def in_parts(batch: Batch) -> Iterator[Batch]:
    """The batch, cut between sentences into parts of about SCORING_WORDS words; a part is not cut again. A sentence that
    is longer than that is a part of its own, which models read in pieces."""
    longest = int(batch.lengths_B.max()) if len(batch) else 0
    if len(batch) <= 1 or (longest <= SCORING_WORDS and batch.n_words < SCORING_WORDS + longest):
        yield batch
        return
    is_long_B = batch.lengths_B > SCORING_WORDS
    begins_B = (batch.starts_B // SCORING_WORDS).diff(prepend=batch.starts_B.new_tensor([-1])) > 0
    begins_B |= is_long_B
    begins_B[1:] |= is_long_B[:-1]
    part_B = begins_B.cumsum(0) - 1
    for index_K in torch.arange(len(batch), device=batch.device).split(torch.bincount(part_B).tolist()):
        yield batch.select(index_K)


def is_long(batch: Batch) -> bool:
    """Whether this is a sentence that is read in pieces."""
    return len(batch) == 1 and batch.n_words > SCORING_WORDS


def pieces(batch: Batch, reach: int) -> Iterator[tuple[Batch, slice]]:
    """The batch; or, if it is one long sentence, pieces of it with `reach` words more on either side, so that a model which
    sees no further computes the same; and which words of the piece are its own."""
    if not is_long(batch):
        yield batch, slice(None)
        return
    size = SCORING_WORDS // 4  # the words of one sentence share few windows, and each takes memory
    for first in range(0, batch.n_words, size):
        low, high = max(first - reach, 0), min(first + size + reach, batch.n_words)
        piece = Batch(batch.ids_N[low:high], batch.lengths_B.new_tensor([high - low]))
        yield piece, slice(first - low, min(first + size, batch.n_words) - low)
