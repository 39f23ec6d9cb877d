"""The distinct windows of words in a batch: which ones there are, layer by layer, and which rows of the layer below each one reads.

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

import torch
from torch import Tensor

from trflm.potentials.cnn import half_offsets
from trflm.potentials.distinct import distinct, distinct_tuples
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
    pool: list[Tensor]  # for each width k: [D, p] the bank windows of width k to take the maximum of
    parents: list[Tensor]  # for each width from 2: [D] the pooled window of width k - 1 at the same place
    stack: list[StackIndex]
    top_N: Tensor  # the window of the last layer at each word of the batch, int64

    @classmethod
    def of(cls, batch: Batch, shape: Shape) -> "WindowIndex":
        """The index of this batch, built when it is first asked for and kept as long as the batch."""
        with _lock:
            found = _known.setdefault(batch, {})
            if shape not in found:
                found[shape] = _Builder(batch, shape).build()
            return found[shape]

    @cached_property
    def rows(self) -> dict[str, list[int]]:
        """How many distinct windows each layer has, for counting multiply-adds."""
        return {
            "words": [len(self.words_U)],
            "bank": [len(words_Dk) for words_Dk in self.bank],
            "pool": [len(reads_Dp) for reads_Dp in self.pool],
            "stack": [len(layer.reads_Ds) for layer in self.stack],
            "positions": [len(self.top_N)],
        }


_known: WeakKeyDictionary[Batch, dict[Shape, WindowIndex]] = WeakKeyDictionary()
_lock = threading.Lock()


class _Builder:
    """Places: the words of each sentence, then one more, which is beyond it."""

    def __init__(self, batch: Batch, shape: Shape) -> None:
        self.batch, self.shape = batch, shape
        word_N, place_U = distinct(batch.ids_N)
        self.words_U = batch.ids_N[place_U]
        self.beyond = len(place_U)
        self.place_N = torch.arange(batch.n_words, device=batch.device) + batch.sentence_N
        sentence_M = torch.repeat_interleave(torch.arange(len(batch), device=batch.device), batch.lengths_B + 1)
        first_B = batch.starts_B + torch.arange(len(batch), device=batch.device)
        self.first_M, self.end_M = first_B[sentence_M], (first_B + batch.lengths_B)[sentence_M]
        place_M = torch.arange(len(sentence_M), device=batch.device)
        self.before_M, self.after_M = place_M - self.first_M, self.end_M - place_M  # words before here; words from here on
        self.word_M = torch.full_like(sentence_M, self.beyond).index_copy(0, self.place_N, word_N)
        self.word_at = {offset: self._word_at(offset) for offset in half_offsets(shape.bank_width + shape.pool_width - 1)}

    def build(self) -> WindowIndex:
        K, p, _, n_layers = self.shape
        # n-grams around every place: numbers[n] and, for each of them, a place that has it.
        number_M, place_D = distinct(self.word_M)
        numbers, places = [number_M, number_M], [place_D, place_D]  # there is no n = 0
        for n in range(2, K + p):
            added = half_offsets(n).start if half_offsets(n).start < half_offsets(n - 1).start else half_offsets(n).stop - 1
            number_M, place_D = distinct(number_M * (self.beyond + 1) + self.word_at[added])
            numbers.append(number_M)
            places.append(place_D)
        bank = [torch.stack([self.word_at[o][places[k]] for o in half_offsets(k)], 1).int() for k in range(1, K + 1)]
        pool, parents, shift = [], [], 0
        for k in range(1, K + 1):
            shift_below, shift = shift, self._shift(k)
            place_D = places[k + p - 1] - shift
            pool.append(torch.stack([numbers[k][self._inside(place_D + o, places[k + p - 1])] for o in half_offsets(p)], 1).int())
            if k > 1:
                below_D = place_D + shift_below
                parents.append(numbers[k + p - 2][below_D.clamp(0, len(number_M) - 1)].int())
        stack, row_N, count = [], number_M[self.place_N + shift], len(places[-1])
        for _ in range(n_layers):
            layer, row_N = self._stack_layer(row_N, count)
            count = len(layer.reads_Ds)
            stack.append(layer)
        return WindowIndex(self.words_U, bank, pool, parents, stack, row_N)

    def _word_at(self, offset: int) -> Tensor:
        """[M] the word so many places to the right."""
        if offset == 0:
            return self.word_M
        room_M = self.after_M > offset if offset > 0 else self.before_M >= -offset
        return torch.where(room_M, self.word_M.roll(-offset), self.beyond)

    def _shift(self, k: int) -> int:
        """A pooled window of width k at place i is the n-gram around place i + 0 or i + 1."""
        p = self.shape.pool_width
        return half_offsets(k).start + half_offsets(p).start - half_offsets(k + p - 1).start

    def _inside(self, place_D: Tensor, owner_D: Tensor) -> Tensor:
        """The nearest place with a word in the sentence of `owner_D`: taking a value that is in the maximum anyway leaves it."""
        return torch.minimum(torch.maximum(place_D, self.first_M[owner_D]), self.end_M[owner_D] - 1)

    def _stack_layer(self, row_N: Tensor, count: int) -> tuple[StackIndex, Tensor]:
        """The layer above windows `row_N`, of which there are `count`; number `count` is what is beyond a sentence."""
        batch, columns = self.batch, []
        for offset in half_offsets(self.shape.stack_width):
            room_N = batch.remaining_N >= offset if offset > 0 else batch.position_N >= -offset
            columns.append(row_N if offset == 0 else torch.where(room_N, row_N.roll(-offset), count))
        above_N, place_D = distinct_tuples(columns, count + 1)
        s = len(columns)
        reads_Ds = torch.stack([column_N[place_D] * s + o for o, column_N in enumerate(columns)], 1)
        return StackIndex(reads_Ds.int(), row_N[place_D].int()), above_N
