"""The features of a discrete field and where they occur: every feature is a pattern and a key, its symbols as one number.

A sentence is read with a start before and an end after its words, one marker each, so a pattern may be anchored at its head or
its tail; a class n-gram has markers of its own. What consists of markers alone is no feature: it tells the length, which Z_l
has taken up already. A key is a number with one digit a symbol, in base V + 2 for words and C + 2 for classes.

Shapes: V words, C classes, P patterns, J columns (a pattern and one of its gaps), K features, B sentences, N words in all,
M = N + 2B places with markers, F occurrences.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from trflm.errors import InputError
from trflm.potentials.discrete.patterns import MOST_SYMBOLS, Pattern
from trflm.speed import compiled
from trflm.text import Batch

LARGEST_KEY = 2**63 - 1


class Alphabet:
    """The symbols of patterns: words, then start and end; classes, then start and end. `class_V` is empty if no pattern has
    classes."""

    def __init__(self, n_words: int, class_V: Tensor) -> None:
        self.n_words, self.class_V = n_words, class_V
        self.n_classes = int(class_V.max()) + 1 if len(class_V) else 0

    def base(self, symbol: str) -> int:
        return 2 + (self.n_words if symbol == "w" else self.n_classes)

    def check(self, pattern: Pattern) -> None:
        """Every key has to fit into 63 bits."""
        most = 1
        for symbol in pattern.symbols:
            most *= self.base(symbol)
        if most > LARGEST_KEY:
            fits = int(LARGEST_KEY ** (1 / pattern.order)) - 2
            raise InputError(
                f"features {pattern.name} of {self.n_words:,} words do not fit into 63 bits; "
                f"take at most {fits:,} words (data.vocab_size), or model.order = {pattern.order - 1}"
            )

    def read(self, batch: Batch) -> "Places":
        """The sentences with their markers."""
        n_places = batch.n_words + 2 * len(batch)
        place_N = torch.arange(batch.n_words, device=batch.device) + 2 * batch.sentence_N + 1
        lengths_B = batch.lengths_B.long() + 2
        end_B = lengths_B.cumsum(0) - 1
        word_M = torch.full((n_places,), self.n_words, device=batch.device)
        word_M[place_N] = batch.ids_N.long()
        word_M[end_B] = self.n_words + 1
        position_M = torch.arange(n_places, device=batch.device)
        position_M -= torch.repeat_interleave(end_B - lengths_B + 1, lengths_B, output_size=n_places)
        symbols = [word_M]
        if self.n_classes:
            symbols.append(self.class_of(batch.device)[word_M])
        return Places(torch.stack(symbols), position_M, place_N)

    def class_of(self, device: torch.device) -> Tensor:
        """[V + 2] the class of each word and marker; empty if there are no classes."""
        if not self.n_classes:
            return torch.empty(0, dtype=torch.int64, device=device)
        markers = torch.tensor([self.n_classes, self.n_classes + 1])
        return torch.cat([self.class_V.cpu().long(), markers]).to(device)


class Places(NamedTuple):
    """A marked batch: [1 or 2, M] the word (and the class) at each place, [M] its place in its sentence (0 is the start),
    [N] the place of each word."""

    symbols: Tensor
    position_M: Tensor
    place_N: Tensor


def key_at(places: Places, pattern: Pattern, gaps: tuple[int, ...], alphabet: Alphabet) -> tuple[Tensor, Tensor]:
    """([..] the places at which a pattern with these gaps may end, [..] the key of what stands there)."""
    end = (places.position_M >= max(-gaps[0], 1)).nonzero().squeeze(1)
    key = torch.zeros_like(end)
    for symbol, offset in zip(pattern.symbols, gaps, strict=True):
        key = key * alphabet.base(symbol) + places.symbols["wc".index(symbol)][end + offset]
    return end, key


class Columns(NamedTuple):
    """A column for each pattern and gap: [J] the pattern, [J, 4] the places of its symbols (0 beyond the last one), their
    bases, and which row of `Places.symbols` they are from."""

    pattern_J: np.ndarray
    order_J: np.ndarray
    offset_J4: np.ndarray
    base_J4: np.ndarray
    row_J4: np.ndarray


class Found(NamedTuple):
    """The F occurrences of features in a batch: their feature, the place of their last symbol, their column."""

    feature_F: Tensor
    place_F: Tensor
    column_F: Tensor


@dataclass(frozen=True, eq=False)
class Features:
    """K features: those of pattern p are first_P1[p] up to first_P1[p + 1], by rising key."""

    patterns: tuple[Pattern, ...]
    alphabet: Alphabet
    key_K: Tensor  # int64
    first_P1: Tensor  # int64

    def __len__(self) -> int:
        return len(self.key_K)

    @cached_property
    def gaps(self) -> list[tuple[int, Pattern, tuple[int, ...]]]:
        """(number of the pattern, pattern, places of its symbols) of each column."""
        return [(p, pattern, gaps) for p, pattern in enumerate(self.patterns) for gaps in pattern.gaps]

    @cached_property
    def columns(self) -> Columns:
        J = len(self.gaps)
        offset_J4, base_J4, row_J4 = (np.zeros((J, MOST_SYMBOLS), np.int64) for _ in range(3))
        for j, (_, pattern, gaps) in enumerate(self.gaps):
            offset_J4[j, : pattern.order] = gaps
            base_J4[j, : pattern.order] = [self.alphabet.base(symbol) for symbol in pattern.symbols]
            row_J4[j, : pattern.order] = ["wc".index(symbol) for symbol in pattern.symbols]
        pattern_J = np.array([p for p, _, _ in self.gaps])
        return Columns(pattern_J, np.array([pattern.order for _, pattern, _ in self.gaps]), offset_J4, base_J4, row_J4)

    @cached_property
    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """A hash table of the features for the compiled loops: (slots, [P + 1] where those of each pattern begin)."""
        from trflm.potentials.discrete.features_loops import fill_slots

        slot_P1 = np.cumsum([0, *(1 << int(2 * n).bit_length() for n in self.first_P1.diff().tolist())])
        slots = np.full(slot_P1[-1], -1, np.int32)
        fill_slots(self.key_K.numpy(), self.first_P1.numpy(), slots, slot_P1)
        return slots, slot_P1

    def find(self, places: Places) -> Found:
        """All occurrences, place by place or column by column."""
        if not len(self):
            return Found(*(places.position_M[:0] for _ in range(3)))
        return self._compiled_find(places) if compiled.usable(self.key_K) else self._torch_find(places)

    def _compiled_find(self, places: Places) -> Found:
        from trflm.potentials.discrete.features_loops import find_features

        most = len(places.position_M) * len(self.gaps)
        feature, place, column = (np.empty(most, np.int64) for _ in range(3))
        n = find_features(
            places.symbols.numpy(), places.position_M.numpy(), *self.columns, *self.table,
            self.key_K.numpy(), feature, place, column,
        )  # fmt: skip
        return Found(*(torch.from_numpy(array[:n].copy()) for array in (feature, place, column)))

    def _torch_find(self, places: Places) -> Found:
        parts = list(self._columns_of(places))
        return Found(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def _columns_of(self, places: Places) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for j, (p, pattern, gaps) in enumerate(self.gaps):
            end, key = key_at(places, pattern, gaps, self.alphabet)
            feature, hit = self.of_keys(p, key)
            yield feature, end[hit], torch.full_like(hit, j)

    def of_keys(self, p: int, key: Tensor) -> tuple[Tensor, Tensor]:
        """Of keys of pattern p, by sorting them: the features there are, and where among the keys each was."""
        distinct_D, which = torch.unique(key, return_inverse=True)
        first, beyond = self.first_P1[p : p + 2].tolist()
        row_D = first + torch.searchsorted(self.key_K[first:beyond], distinct_D)
        stored_D = row_D < beyond
        stored_D[stored_D.clone()] = self.key_K[row_D[stored_D]] == distinct_D[stored_D]
        hit = stored_D[which].nonzero().squeeze(1)
        return row_D[which[hit]], hit

    def sums(self, places: Places, weight_K: Tensor) -> Tensor:
        """[M] the sum of the weights of the features that end at each place; each distinct key is looked up once."""
        if len(self) and compiled.usable(self.key_K):
            from trflm.potentials.discrete.features_loops import sum_weights

            sum_M = weight_K.new_zeros(len(places.position_M))
            sum_weights(
                places.symbols.numpy(), places.position_M.numpy(), *self.columns, *self.table,
                self.key_K.numpy(), weight_K.numpy(), sum_M.numpy(),
            )  # fmt: skip
            return sum_M
        found = self.find(places)
        return weight_K.new_zeros(len(places.position_M)).index_add(0, found.place_F, weight_K[found.feature_F])
