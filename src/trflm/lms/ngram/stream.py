"""Modified Kneser-Ney estimation (the equation of `estimate`) from a text of any size, in memory for the n-grams that are kept.

Order by order, and within an order share after share of its n-grams (by a hash), so that at no time more than about `at_once`
occurrences are held: the text is read once for each share. Of an n-gram that is dropped (cut-offs) nothing is kept but what it
adds to the sums of its context, c(h) and the counts of discounts.

An n-gram is known by a key of 64 bits: sum_i s_i M^(n - i) mod 2^64, s_i its symbols and M odd. From the key of an n-gram, its
first and its last symbol follow the keys of the n-grams without them. Two of G different n-grams have the same key with a
probability of about G^2 / 2^65: 0.0003 for a hundred million.

Shapes: T symbols of a part of the marked text, E occurrences of a share, G its distinct n-grams, P n-grams kept of
the order below.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from trflm.errors import InputError
from trflm.lms.ngram.tables import Order, Tables, mark
from trflm.speed.memory import available_memory, returning_freed_memory
from trflm.text import Text

MULTIPLIER = 0x9E3779B97F4A7C15
INVERSE = pow(MULTIPLIER, -1, 2**64)
OCCURRENCE_BYTES = 64  # of an occurrence while its share is sorted
NGRAM_BYTES = 72  # of an n-gram that is kept, while its order is estimated
FEWEST_AT_ONCE, MOST_AT_ONCE = 1 << 21, 1 << 25  # occurrences: a quarter of the text within these bounds
PART = 1 << 20  # n-grams whose probabilities are computed at a time


@dataclass
class Kept:
    """The n-grams of one order that are kept, by rising key of 64 bits; `row` is the place of each in the tables."""

    key: np.ndarray
    row: np.ndarray

    @classmethod
    def of(cls, key_G: np.ndarray) -> "Kept":
        """Of n-grams that are given in the order of the tables."""
        row = np.argsort(key_G)
        return cls(key_G[row], compact(row))

    def rows_of(self, key_G: np.ndarray) -> np.ndarray:
        """[G] the row of each, -1 where it is not kept."""
        if not len(self.key):
            return np.full(len(key_G), -1)
        place = np.minimum(np.searchsorted(self.key, key_G), len(self.key) - 1)
        return np.where(self.key[place] == key_G, self.row[place], -1).astype(np.int64)  # they are multiplied


@dataclass
class Share:
    """The distinct n-grams of a share."""

    key_G: np.ndarray
    first_G: np.ndarray
    last_G: np.ndarray
    occurrences_G: np.ndarray
    before_G: np.ndarray  # how many different symbols stand before it


class StreamEstimate:
    """One estimation; `discounts_of` gives D(0..3) from the numbers n of n-grams with c = 0 .. 4 and the order."""

    def __init__(self, text: Text, n_words: int, order: int, min_counts: tuple[int, ...], open_vocabulary: bool) -> None:
        self.text, self.n_words, self.order = text, n_words, order
        self.min_counts, self.open_vocabulary = min_counts, open_vocabulary
        self.S, self.start = n_words + 2, n_words
        self.memory = available_memory()
        wanted = max(FEWEST_AT_ONCE, (text.n_words + 2 * len(text)) // 4)
        self.at_once = max(1 << 16, min(wanted, MOST_AT_ONCE, self.memory // 4 // OCCURRENCE_BYTES))

    def tables(self, discounts_of: Callable[[np.ndarray, int], np.ndarray]) -> Tables:
        with returning_freed_memory():
            return self._tables(discounts_of)

    def _tables(self, discounts_of: Callable[[np.ndarray, int], np.ndarray]) -> Tables:
        S, orders, held = self.S, [], 0
        below = Kept(np.zeros(1, np.uint64), np.zeros(1, np.int32))  # order 0: the empty n-gram
        prob_P, has_unk_P = np.full(1, 1 / (self.n_words + 1)), np.zeros(1, bool)
        for k in range(1, self.order + 1):
            P, highest = len(prob_P), k == self.order
            total_P, n = np.zeros(P), np.zeros(6, np.int64)  # c(h); n-grams with c = 0 .. 4, 5+
            found: list[list[np.ndarray]] = [[], [], [], [], []]
            # 1. All n-grams of the order, share after share; of those that are dropped what they add to c(h) alone.
            for share in self.shares(k):
                parent_G = below.rows_of((share.key_G - share.last_G.astype(np.uint64) - np.uint64(1)) * np.uint64(INVERSE))
                count_G = share.occurrences_G
                if not highest:
                    count_G = np.where(share.before_G == 0, count_G, share.before_G)
                if k == 1:
                    count_G = np.where(self._uncounted(share.last_G), 0, count_G)
                n += np.bincount(np.minimum(count_G, 5), minlength=6)
                has_unk_G = has_unk_P[parent_G] | (share.last_G == 0)
                keep_G = share.occurrences_G >= self.min_counts[min(k, len(self.min_counts)) - 1]
                keep_G &= ~(has_unk_G & self.open_vocabulary)
                keep_G = (keep_G & (parent_G >= 0)) | (k == 1)  # what follows a dropped one is rare, or has <unk>, too
                dropped = ~keep_G & (parent_G >= 0)
                if dropped.any():
                    total_P += np.bincount(parent_G[dropped], count_G[dropped], P)
                suffix_G = below.rows_of(share.key_G - (share.first_G.astype(np.uint64) + np.uint64(1)) * power(k - 1))
                columns = (share.key_G, parent_G * S + share.last_G, compact(suffix_G), compact(count_G), has_unk_G)
                for column, values in zip(found, columns, strict=True):
                    column.append(values[keep_G])
                if highest:  # nothing is above that would look for these
                    found[0].clear()
                held += int(keep_G.sum())
                self._check(held, k)
            key, table_key, suffix, count, has_unk = map(joined, found)
            if k == 1:  # every symbol is a unigram, seen or not
                n[0] += S - len(table_key)
                key, table_key, suffix, count, has_unk = self._all_symbols(table_key, count)
            sort = np.argsort(table_key)
            table_key, suffix, count, has_unk = table_key[sort], suffix[sort], count[sort], has_unk[sort]
            if not highest:
                below = Kept.of(key[sort])
            del key, sort
            # 2. The equation; an n-gram that is dropped has given up its whole count.
            D = discounts_of(n[:5].astype(float), k)
            gamma_P, prob_G = total_P.copy(), np.empty(len(table_key))
            for part in parts_of(table_key):
                parent, first = table_key[part] // S, int(table_key[part.start]) // S
                contexts = slice(first, int(parent[-1]) + 1)
                total_P[contexts] += np.bincount(parent - first, count[part])
                gamma_P[contexts] += np.bincount(parent - first, D[np.minimum(count[part], 3)])
            np.divide(gamma_P, total_P, out=gamma_P, where=total_P > 0)
            gamma_P[total_P == 0] = 1.0
            for part in parts_of(table_key):
                parent, c = table_key[part] // S, count[part]
                prob_G[part] = (c - D[np.minimum(c, 3)]) / total_P[parent] + gamma_P[parent] * prob_P[suffix[part]]
            if k == 1:
                prob_G[self.start] = 0.0
            # 3. The tables, and what the next order needs of this one.
            with np.errstate(divide="ignore"):
                orders.append((table_key, np.log(prob_G)))
                if k > 1:
                    orders[k - 2] += (np.log(gamma_P, out=gamma_P),)
            prob_P, has_unk_P = prob_G, has_unk
        orders[-1] += (np.empty(0),)
        return Tables(self.n_words, [Order(*arrays) for arrays in orders])

    def _uncounted(self, symbol: np.ndarray) -> np.ndarray:
        return (symbol == self.start) | ((symbol == 0) & self.open_vocabulary)

    def _all_symbols(self, table_key: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, ...]:
        """The columns of the unigrams: symbol by symbol."""
        count_S = np.zeros(self.S, np.int64)
        count_S[table_key] = count
        symbol_S = np.arange(self.S)
        return symbol_S.astype(np.uint64) + np.uint64(1), symbol_S, np.zeros(self.S, np.int64), count_S, symbol_S == 0

    def _check(self, held: int, k: int) -> None:
        if held * NGRAM_BYTES > self.memory // 2:
            cut = [1, *(2 for _ in range(max(k - 1, 1)))]
            raise InputError(
                f"the n-grams of up to {k} words of this text are more than memory holds: {held:,} so far, at {NGRAM_BYTES} "
                f"bytes each, and {self.memory / 1e9:.1f} GB are free. Keep those alone that occur more often (min_counts = "
                f"{cut}, or more), lower the order, or estimate the model elsewhere and give its ARPA file ([reference] "
                'model = "FILE", or [noise] kind = "trained", model = "FILE")'
            )

    def shares(self, k: int) -> Iterator[Share]:
        """The n-grams of order k of the text, each in one share."""
        n_shares = math.ceil((self.text.n_words + 2 * len(self.text)) / self.at_once)
        for share in range(n_shares):
            parts = [self._occurrences(symbol_T, k, share, n_shares) for symbol_T in self._symbols()]
            key_E, first_E, last_E, before_E = (np.concatenate(column) for column in zip(*parts, strict=True))
            del parts
            if len(key_E):
                yield grouped(key_E, first_E, last_E, before_E, self.S)

    def _symbols(self) -> Iterator[np.ndarray]:
        for part in self.text.parts():
            yield mark(part.ids_N.numpy(), part.lengths_B.numpy(), self.n_words)

    def _occurrences(self, symbol_T: np.ndarray, k: int, share: int, n_shares: int) -> tuple[np.ndarray, ...]:
        """(key, first symbol, last symbol, symbol before or -1) of each occurrence in the share."""
        index_T = np.arange(len(symbol_T))
        position_T = index_T - np.maximum.accumulate(np.where(symbol_T == self.start, index_T, 0))
        key_T, summand_T = np.zeros(len(symbol_T), np.uint64), symbol_T.astype(np.uint64) + np.uint64(1)
        for i in range(k):  # the symbol i places before, times M^i; what is rolled over the beginning ends nothing
            key_T += np.roll(summand_T, i) * power(i)
        ends = position_T >= k - 1
        if n_shares > 1:
            ends &= (key_T * np.uint64(0xD6E8FEB86659FD93) >> np.uint64(33)) % np.uint64(n_shares) == share
        end = np.flatnonzero(ends)
        before = np.where(position_T[end] >= k, symbol_T[end - k], -1)
        return key_T[end], *(symbol.astype(np.int32) for symbol in (symbol_T[end - k + 1], symbol_T[end], before))


def grouped(key_E: np.ndarray, first_E: np.ndarray, last_E: np.ndarray, before_E: np.ndarray, S: int) -> Share:
    """Occurrences of equal keys together."""
    sort = np.argsort(key_E)
    key_E = key_E[sort]
    new_E = np.ones(len(key_E), bool)
    new_E[1:] = key_E[1:] != key_E[:-1]
    begin_G = np.flatnonzero(new_E)
    pair_E = np.sort((np.cumsum(new_E) - 1) * (S + 1) + before_E[sort] + 1)  # the number of the n-gram and the symbol before
    distinct = pair_E[np.flatnonzero(np.diff(pair_E, prepend=-1))]
    number, before = np.divmod(distinct, S + 1)
    before_G = np.bincount(number[before > 0], minlength=len(begin_G))
    example_G = sort[begin_G]
    return Share(
        key_E[begin_G], first_E[example_G].astype(np.int64), last_E[example_G].astype(np.int64),
        np.diff(begin_G, append=len(key_E)), before_G,
    )  # fmt: skip


def joined(parts: list[np.ndarray]) -> np.ndarray:
    """The parts, which are gone then, end to end."""
    whole = np.concatenate(parts) if parts else np.empty(0, np.int64)
    parts.clear()
    return whole


def compact(values: np.ndarray) -> np.ndarray:
    """In 32 bits where they have room for all."""
    return values.astype(np.int32) if values.max(initial=0) < 2**31 else values


def parts_of(column: np.ndarray) -> Iterator[slice]:
    return (slice(begin, min(begin + PART, len(column))) for begin in range(0, len(column), PART))


def power(i: int) -> np.uint64:
    """M^i mod 2^64."""
    return np.uint64(pow(MULTIPLIER, i, 2**64))
