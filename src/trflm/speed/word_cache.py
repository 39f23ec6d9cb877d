"""A row of numbers for each word, computed when the word is first met and kept until a parameter changes.

What a layer makes of a single word (the bank's table of the CNN, the input gates of the LSTM) need not be computed again for
every occurrence: blocks of a Markov move and lists of utterances use the same few thousand words again and again.

What is kept must not depend on what was asked for before. Libraries of linear algebra multiply a few rows in another way than
many, with another last bit, so never fewer than FEWEST are computed at once.
"""

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Self

import torch
from torch import Tensor

FEWEST = 16  # rows


class WordCache:
    """Changes are seen by autograd's version counters, so parameters are to be changed in place, not through `.data`.

    Several threads may ask at once. Rows that were handed out never change: new ones go to free places, or into new memory.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        _every.add(self)
        self.most_bytes = 1 << 29  # beyond this the rows start anew with the words at hand
        self.room = 0  # rows that were needed before the last start: room for all is made at once, if it is allowed
        self.forget()

    def __deepcopy__(self, memo: dict) -> Self:
        """A copied layer starts with nothing kept."""
        return type(self)()

    def forget(self) -> None:
        with self.lock:
            self.versions: object = None
            self.slot_V = torch.empty(0)
            self.rows = torch.empty(0)  # row 0 is all zeros
            self.used = 0  # rows; the others are room to grow

    def find(
        self,
        words: Tensor,
        n_words: int,
        row_size: int,
        parameters: Sequence[Tensor],
        compute: Callable[[Tensor, Tensor], object],
    ) -> tuple[Tensor, Tensor]:
        """(rows, [U] where those of these words are in it); `compute(words, out)` writes those that are missing."""
        with self.lock:
            versions = tuple((p.data_ptr(), p._version) for p in parameters)
            most_rows = self.most_bytes // (row_size * parameters[0].itemsize)
            if self.versions != versions or self.used > most_rows:
                self.versions = versions
                self.slot_V = torch.zeros(n_words, dtype=torch.int64, device=words.device)
                self.rows = parameters[0].new_empty(max(1 + len(words), min(self.room, most_rows)), row_size)
                self.rows[0] = 0
                self.used = 1
            new_U = torch.unique(words[self.slot_V[words] == 0])
            first, self.used = self.used, self.used + len(new_U)
            if self.used > len(self.rows):  # twice the room, so that a row is moved once on average
                grown = self.rows.new_empty(2 * self.used, row_size)
                grown[:first] = self.rows[:first]
                self.rows = grown
            self.room = max(self.room, self.used)
            if len(new_U):
                _compute(new_U, self.rows[first : self.used], compute)
                self.slot_V[new_U] = torch.arange(first, self.used, device=words.device)
            return self.rows, self.slot_V[words]


def _compute(words_U: Tensor, out: Tensor, compute: Callable[[Tensor, Tensor], object]) -> None:
    """`compute(words_U, out)`, of FEWEST rows at least."""
    if len(words_U) >= FEWEST:
        compute(words_U, out)
        return
    enough = out.new_empty(FEWEST, out.shape[1])
    compute(torch.cat([words_U, words_U[:1].expand(FEWEST - len(words_U))]), enough)
    out.copy_(enough[: len(words_U)])


_every: "weakref.WeakSet[WordCache]" = weakref.WeakSet()


def _start_anew() -> None:
    """In a forked process: a thread that was at work, and does not live here, may have held a lock and left rows half made."""
    for cache in _every:
        cache.lock = threading.Lock()
        cache.forget()


os.register_at_fork(after_in_child=_start_anew)
