"""The distinct windows of words in a batch: which there are, layer by layer, and which rows of the layer below each one reads.

A position of the bank's width k sees k words, its pooled value k + p - 1 (p the pooling width), a stack layer s - 1 more
(s the stack's width). With the paper's sizes (docs/windows.svg; # the filter, or what the layer before has seen; + added):

    offset      -7 -6 -5 -4 -3 -2 -1  0  1  2  3  4  5  6  7  8  9
    bank 1                            #  +                              1 word, pooled 2
    bank 2                            #  #  +                           2 words, pooled 3
    bank 3                         #  #  #  +                           3 words, pooled 4
     ...
    bank 10               #  #  #  #  #  #  #  #  #  #  +               10 words, pooled 11
    stack 1            +  #  #  #  #  #  #  #  #  #  #  #  +            13 words
    stack 2         +  #  #  #  #  #  #  #  #  #  #  #  #  #  +         15 words
    stack 3      +  #  #  #  #  #  #  #  #  #  #  #  #  #  #  #  +      17 words

Hypotheses of one utterance, or trials of one Markov move, share most of their windows. The index is built once for a batch
and serves every CNN of that shape: all snapshots of a field.

Windows of n words, all of them n-grams of the text with zeros around its sentences, are numbered by pairs: the number of the
window of n - 1 words within, and the word that is added. So two windows are equal exactly if their numbers are, without
comparing words. The bank's width n and the pooled width n - p + 1 see the same n-grams, if each sentence gets one place more
at its end: the odd one of the two half convolutions looks one place further to the right.

A pooled window determines all pooled windows of smaller widths at its place: the first stack layer, a sum over the widths, is
summed up from the narrow ones, each narrow window's share computed once however many wide ones hold it. The sums stay where
they are: a window gets the row of the narrower one that it widens, or a new row if another window has it already (`widen`).
The same holds for the sum over the layers of the stack.

Shapes: N words, B sentences, M = N + B places, U distinct words (number U stands for what is beyond a sentence), D distinct
windows of a layer, X of them in rows that the layer below does not have, n words of a window, p and s as above.
"""

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from trflm.potentials.cnn.layers import half_offsets
from trflm.speed import compiled
from trflm.speed.distinct import distinct
from trflm.text import Batch


class Shape(NamedTuple):
    """What of a CNN decides which windows there are."""

    bank_width: int
    pool_width: int
    stack_width: int
    stack_layers: int


@dataclass(frozen=True)
class PoolIndex:
    """The pooled windows of one width: `reads_pD` are the bank windows of that width to take the maximum of. The last X windows
    widen those in the rows `widened_X`, all others the one in their own row."""

    reads_pD: Tensor
    widened_X: Tensor


@dataclass(frozen=True)
class StackIndex:
    """One stack layer: `reads_Ds` the rows of the layer below times s plus the offset's number; `widened_X` as above."""

    reads_Ds: Tensor
    widened_X: Tensor


@dataclass(frozen=True)
class WindowIndex:
    """The distinct windows of a batch for CNNs of one shape. Row numbers are int32, as embedding_bag likes them best."""

    words_U: Tensor  # the distinct words of the batch, int64
    bank: list[Tensor]  # for each width k: [D, k] the words of each window
    pool: list[PoolIndex]  # for each width k
    stack: list[StackIndex]
    top_N: Tensor  # the window of the last layer at each word of the batch, int64

    @classmethod
    def of(cls, batch: Batch, shape: Shape) -> "WindowIndex":
        """The index of this batch, built when it is first asked for and kept as long as the batch."""
        with _lock:
            found, building = _known.setdefault(batch, ({}, threading.Lock()))
        with building:
            if shape not in found:
                build = compiled_index if compiled.usable(batch.ids_N) else torch_index
                found[shape] = build(batch, shape)
            return found[shape]

    @cached_property
    def rows(self) -> dict[str, list[int]]:
        """How many distinct windows each layer has, for counting multiply-adds."""
        return {
            "words": [len(self.words_U)],
            "bank": [len(words_Dk) for words_Dk in self.bank],
            "pool": [layer.reads_pD.shape[1] for layer in self.pool],
            "stack": [len(layer.reads_Ds) for layer in self.stack],
            "positions": [len(self.top_N)],
        }


_known: WeakKeyDictionary[Batch, tuple[dict[Shape, WindowIndex], threading.Lock]] = WeakKeyDictionary()
_lock = threading.Lock()


def added_offset(n: int) -> int:
    """Where a window of n words has the word that one of n - 1 words has not."""
    longer, shorter = half_offsets(n), half_offsets(n - 1)
    return longer.start if longer.start < shorter.start else longer.stop - 1


def pooled_shift(k: int, p: int) -> int:
    """A pooled window of width k at place i is the n-gram around place i + 0 or i + 1."""
    return half_offsets(k).start + half_offsets(p).start - half_offsets(k + p - 1).start


def compiled_index(batch: Batch, shape: Shape) -> WindowIndex:
    """By compiled loops; step by step the same as `torch_index`."""
    from trflm.speed.distinct_loops import index_windows

    words_U, word_N = batch.distinct_words
    low = np.array([half_offsets(n).start for n in range(max(shape.bank_width + shape.pool_width, shape.stack_width + 1))])
    bank, pool, stack, top_N = index_windows(word_N.numpy(), len(words_U), batch.lengths_B.numpy(), shape, low)
    return WindowIndex(
        words_U,
        [torch.from_numpy(words_Dk) for words_Dk in bank],
        [PoolIndex(torch.from_numpy(reads_pD), torch.from_numpy(widened_X)) for reads_pD, widened_X in pool],
        [StackIndex(torch.from_numpy(reads_Ds), torch.from_numpy(widened_X)) for reads_Ds, widened_X in stack],
        torch.from_numpy(top_N),
    )


def torch_index(batch: Batch, shape: Shape) -> WindowIndex:
    return _Builder(batch, shape).build()


class _Builder:
    """Places: the words of each sentence, then one more, which is beyond it. All row numbers are int32."""

    def __init__(self, batch: Batch, shape: Shape) -> None:
        self.batch, self.shape = batch, shape
        first_B = (batch.starts_B + torch.arange(len(batch), device=batch.device)).int()
        both_B2 = torch.stack([first_B, first_B + batch.lengths_B.int()], 1)
        both_M2 = torch.repeat_interleave(both_B2, batch.lengths_B + 1, 0, output_size=batch.n_words + len(batch))
        self.first_M, self.end_M = both_M2[:, 0].contiguous(), both_M2[:, 1].contiguous()  # of the sentence around a place
        self.place_M = torch.arange(len(both_M2), dtype=torch.int32, device=batch.device)
        self.place_N = torch.arange(batch.n_words, dtype=torch.int32, device=batch.device) + batch.sentence_N.int()
        self.words_U, word_N = batch.distinct_words
        self.beyond = len(self.words_U)
        self.word_M = torch.full_like(self.place_M, self.beyond).index_copy(0, self.place_N.long(), word_N)
        self.word_at = {offset: self._word_at(offset) for offset in half_offsets(shape.bank_width + shape.pool_width - 1)}
        self.nearest: dict[int, Tensor] = {}

    def build(self) -> WindowIndex:
        K, p, _, n_layers = self.shape
        # 1. The n-grams around every place: numbers[n], and for each distinct one a place that has it.
        number_M, place_D = distinct([self.word_M], 1)
        numbers, places = [number_M, number_M], [place_D, place_D]  # there is no n = 0
        for n in range(2, K + p):
            number_M, place_D = distinct([number_M, self.word_at[added_offset(n)]], self.beyond + 1)
            numbers.append(number_M)
            places.append(place_D)
        # 2. What the bank and the pooling read.
        around_MR = torch.stack(list(self.word_at.values()), 1)
        bank, pool, row_N, count = [], [], torch.full_like(self.place_N, -1), 0
        for k in range(1, K + 1):
            columns = [list(self.word_at).index(offset) for offset in half_offsets(k)]
            bank.append(around_MR.index_select(0, places[k])[:, columns[0] : columns[-1] + 1].contiguous())
            number_N = numbers[k + p - 1].index_select(0, self.place_N + pooled_shift(k, p))
            row_N, place_D, widened_X = widen(number_N, row_N, count)
            count = len(place_D)
            reads = [self._nearest(offset).index_select(0, self.place_N.index_select(0, place_D)) for offset in half_offsets(p)]
            pool.append(PoolIndex(torch.stack([numbers[k].index_select(0, read_D) for read_D in reads]), widened_X))
        # 3. The stack.
        stack = []
        for _ in range(n_layers):
            columns = self._around(row_N, count)
            row_N, place_D, widened_X = widen(distinct(columns, count + 1)[0], row_N, count)
            count, s = len(place_D), len(columns)
            reads_Ds = torch.stack([column_N.index_select(0, place_D) * s + o for o, column_N in enumerate(columns)], 1)
            stack.append(StackIndex(reads_Ds, widened_X))
        return WindowIndex(self.words_U, bank, pool, stack, row_N.long())

    def _word_at(self, offset: int) -> Tensor:
        """[M] the word `offset` places to the right."""
        if offset == 0:
            return self.word_M
        place_M = self.place_M + offset
        inside_M = place_M < self.end_M if offset > 0 else place_M >= self.first_M
        return torch.where(inside_M, self.word_M.roll(-offset), self.beyond)

    def _nearest(self, offset: int) -> Tensor:
        """[M] the place `offset` to the right, or the nearest one to it that has a word of the same sentence. A maximum may
        read that instead of what is beyond: it reads it anyway."""
        if offset not in self.nearest:
            self.nearest[offset] = torch.minimum(torch.maximum(self.place_M + offset, self.first_M), self.end_M - 1)
        return self.nearest[offset]

    def _around(self, row_N: Tensor, count: int) -> list[Tensor]:
        """s times [N]: the rows that a stack layer reads, `count` for what is beyond a sentence."""
        batch, columns = self.batch, []
        for offset in half_offsets(self.shape.stack_width):
            room_N = batch.remaining_N >= offset if offset > 0 else batch.position_N >= -offset
            columns.append(row_N if offset == 0 else torch.where(room_N, row_N.roll(-offset), count))
        return columns


def widen(number_N: Tensor, row_N: Tensor, n_rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows for windows, given their numbers and the `n_rows` rows of the windows that they widen (-1: none). The first to widen
    a row gets it, all others get new ones. ([N] the row of each, [D] a place of each row, [X] what the new rows widen)."""
    number_N, place_D = distinct([number_N], 1)
    widened_D = row_N.index_select(0, place_D)
    if n_rows == 0:
        return number_N, place_D, widened_D
    every_D, old_D = torch.arange(len(place_D), device=row_N.device), widened_D.long()
    first_of_row = every_D.new_full((n_rows,), len(place_D)).scatter_reduce_(0, old_D, every_D, "amin")
    is_new_D = first_of_row[old_D] != every_D
    row_D = torch.where(is_new_D, n_rows - 1 + is_new_D.cumsum(0), old_D)
    return row_D.int().index_select(0, number_N), place_D[torch.argsort(row_D)], widened_D[is_new_D]
