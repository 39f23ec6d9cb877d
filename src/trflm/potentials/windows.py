"""The distinct windows of words in a batch: which there are, layer by layer, and which rows of the layer below each one reads.

A position of the bank's width k sees k words, its pooled value k + p - 1 (p the pooling width), a stack layer s - 1 more
(s the stack's width). Hypotheses of one utterance, or trials of one Markov move, share most of their windows. The index is
built once for a batch and serves every CNN of that shape: all snapshots of a field.

Windows of n words, all of them n-grams of the text with zeros around its sentences, are numbered by pairs: the number of the
window of n - 1 words within, and the word that is added. So two windows are equal exactly if their numbers are, without
comparing words. The bank's width n and the pooled width n - p + 1 see the same n-grams, if each sentence gets one place more
at its end: the odd one of the two half convolutions looks one place further to the right.

A pooled window determines all pooled windows of smaller widths at its place (`parents`): the first stack layer, a sum over the
widths, is summed up from the narrow ones, each narrow window's share computed once however many wide ones hold it.

Shapes: N words, B sentences, M = N + B places, U distinct words (number U stands for what is beyond a sentence), D distinct
windows of a layer, n words of a window, p and s as above.
"""

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from trflm import kernels
from trflm.distinct import distinct
from trflm.potentials.cnn import half_offsets
from trflm.text import Batch


class Shape(NamedTuple):
    """What of a CNN decides which windows there are."""

    bank_width: int
    pool_width: int
    stack_width: int
    stack_layers: int


@dataclass(frozen=True)
class StackIndex:
    """One stack layer: `reads_Ds` the rows of the layer below times s plus the offset's number, for the windows d;
    `inner_D` the row of the layer below at the window's own place."""

    reads_Ds: Tensor
    inner_D: Tensor


@dataclass(frozen=True)
class WindowIndex:
    """The distinct windows of a batch for CNNs of one shape. Row numbers are int32, as embedding_bag likes them best."""

    words_U: Tensor  # the distinct words of the batch, int64
    bank: list[Tensor]  # for each width k: [D, k] the words of each window
    pool: list[list[Tensor]]  # for each width k, p times [D]: the bank windows of width k to take the maximum of
    parents: list[Tensor]  # for each width from 2: [D] the pooled window of width k - 1 at the same place
    stack: list[StackIndex]
    top_N: Tensor  # the window of the last layer at each word of the batch, int64

    @classmethod
    def of(cls, batch: Batch, shape: Shape) -> "WindowIndex":
        """The index of this batch, built when it is first asked for and kept as long as the batch."""
        with _lock:
            found, building = _known.setdefault(batch, ({}, threading.Lock()))
        with building:
            if shape not in found:
                build = compiled_index if kernels.usable(batch.ids_N) else torch_index
                found[shape] = build(batch, shape)
            return found[shape]

    @cached_property
    def rows(self) -> dict[str, list[int]]:
        """How many distinct windows each layer has, for counting multiply-adds."""
        return {
            "words": [len(self.words_U)],
            "bank": [len(words_Dk) for words_Dk in self.bank],
            "pool": [len(reads[0]) for reads in self.pool],
            "stack": [len(layer.inner_D) for layer in self.stack],
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
    from trflm.kernels import numbering as loops

    K, p, s, n_layers = shape
    N, M, L = batch.n_words, batch.n_words + len(batch), K + p - 1
    word_N, place_U = distinct([batch.ids_N.int()], 1)
    beyond = len(place_U)
    at_3M, at_3N = np.empty((3, M), np.int32), np.empty((3, N), np.int32)
    loops.lay_out(batch.lengths_B.numpy(), word_N.numpy(), beyond, at_3M, at_3N)
    (word_M, first_M, end_M), (place_N, first_N, end_N) = at_3M, at_3N

    # 1. The n-grams around every place.
    added_L = np.array([0, *(added_offset(n) for n in range(2, L + 1))])
    number_LM, place_LM, count_L = np.empty((L, M), np.int32), np.empty((L, M), np.int32), np.empty(L, np.int64)
    loops.number_ngrams(word_M, first_M, end_M, beyond, added_L, number_LM, place_LM, count_L)
    places = [place_M[:count] for place_M, count in zip(place_LM, count_L, strict=True)]

    # 2. What the bank, the pooling and the sum over widths read.
    bank, pool, parents = [], [], []
    for k in range(1, K + 1):
        place_D, shift = places[k + p - 2], pooled_shift(k, p)
        words_Dk, reads_pD = np.empty((count_L[k - 1], k), np.int32), np.empty((p, len(place_D)), np.int32)
        loops.around(word_M, places[k - 1], half_offsets(k).start, beyond, first_M, end_M, words_Dk)
        loops.near(number_LM[k - 1], place_D, half_offsets(p).start - shift, first_M, end_M, reads_pD)
        bank.append(torch.from_numpy(words_Dk))
        pool.append(list(torch.from_numpy(reads_pD)))
        if k > 1:
            parent_D = np.empty_like(place_D)
            loops.take(number_LM[k + p - 3], place_D, pooled_shift(k - 1, p) - shift, parent_D)
            parents.append(torch.from_numpy(parent_D))

    # 3. The stack.
    reach, stack, row_N, count = half_offsets(s), [], np.empty_like(place_N), int(count_L[-1])
    loops.take(number_LM[-1], place_N, pooled_shift(K, p), row_N)
    for _ in range(n_layers):
        above_N, place_N = np.empty((2, N), np.int32)
        n_above = loops.number_stack(row_N, count, first_N, end_N, reach.start, s, above_N, place_N)
        reads_Ds, inner_D = np.empty((n_above, s), np.int32), np.empty(n_above, np.int32)
        loops.around(row_N, place_N[:n_above], reach.start, count, first_N, end_N, reads_Ds)
        loops.take(row_N, place_N[:n_above], 0, inner_D)
        reads_Ds = torch.from_numpy(reads_Ds) * s + torch.arange(s, dtype=torch.int32)
        stack.append(StackIndex(reads_Ds, torch.from_numpy(inner_D)))
        row_N, count = above_N, n_above
    return WindowIndex(batch.ids_N.index_select(0, place_U), bank, pool, parents, stack, torch.from_numpy(row_N).long())


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
        word_N, place_U = distinct([batch.ids_N.int()], 1)
        self.words_U = batch.ids_N.index_select(0, place_U)
        self.beyond = len(place_U)
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
        # 2. What the bank, the pooling and the sum over widths read.
        around_MR = torch.stack(list(self.word_at.values()), 1)
        bank, pool, parents = [], [], []
        for k in range(1, K + 1):
            columns = [list(self.word_at).index(offset) for offset in half_offsets(k)]
            bank.append(around_MR.index_select(0, places[k])[:, columns[0] : columns[-1] + 1].contiguous())
            n, shift = k + p - 1, pooled_shift(k, p)
            reads = [self._nearest(offset - shift).index_select(0, places[n]) for offset in half_offsets(p)]
            pool.append([numbers[k].index_select(0, read_D) for read_D in reads])
            if k > 1:
                below_D = (places[n] + (pooled_shift(k - 1, p) - shift)).clamp_(0, len(number_M) - 1)
                parents.append(numbers[n - 1].index_select(0, below_D))
        # 3. The stack.
        stack, row_N, count = [], number_M.index_select(0, self.place_N + pooled_shift(K, p)), len(place_D)
        for _ in range(n_layers):
            layer, row_N = self._stack_layer(row_N, count)
            count = len(layer.inner_D)
            stack.append(layer)
        return WindowIndex(self.words_U, bank, pool, parents, stack, row_N.long())

    def _word_at(self, offset: int) -> Tensor:
        """[M] the word so many places to the right."""
        if offset == 0:
            return self.word_M
        place_M = self.place_M + offset
        inside_M = place_M < self.end_M if offset > 0 else place_M >= self.first_M
        return torch.where(inside_M, self.word_M.roll(-offset), self.beyond)

    def _nearest(self, offset: int) -> Tensor:
        """[M] the place so many to the right, or the nearest one to it that has a word of the same sentence. A maximum may
        read that instead of what is beyond: it reads it anyway."""
        if offset not in self.nearest:
            self.nearest[offset] = torch.minimum(torch.maximum(self.place_M + offset, self.first_M), self.end_M - 1)
        return self.nearest[offset]

    def _stack_layer(self, row_N: Tensor, count: int) -> tuple[StackIndex, Tensor]:
        """The layer above windows `row_N`, of which there are `count`; number `count` is what is beyond a sentence."""
        batch, columns = self.batch, []
        for offset in half_offsets(self.shape.stack_width):
            room_N = batch.remaining_N >= offset if offset > 0 else batch.position_N >= -offset
            columns.append(row_N if offset == 0 else torch.where(room_N, row_N.roll(-offset), count))
        above_N, place_D = distinct(columns, count + 1)
        s = len(columns)
        reads_Ds = torch.stack([column_N.index_select(0, place_D) * s + o for o, column_N in enumerate(columns)], 1)
        return StackIndex(reads_Ds, row_N.index_select(0, place_D)), above_N
