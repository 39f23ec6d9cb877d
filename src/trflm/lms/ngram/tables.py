"""The stored n-grams of a backoff model and the one recursion that reads them.

    log p(w | h) = log_prob(h w)                        if the n-gram h w is stored,
                   log_backoff(h) + log p(w | h')       otherwise,

with h' the context h without its first word, and log_backoff(h) = 0 if h is not stored.

The n-grams of one order lie in one sorted array. An n-gram's key is (row of the n-gram without its last word) * S + last word:
sentences are looked up order by order, all words at once, and the words that follow a context are neighbours.

Shapes: V words, S = V + 2 symbols (the words, then the start, then the end of a sentence), n the order of the model, K = n - 1,
G n-grams of one order, A places to look up at once, T symbols in a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

NOT_STORED = -1


@dataclass(frozen=True, eq=False)
class Order:
    """The n-grams of one order, by rising key. Natural logs; the highest order has no backoffs (an empty array)."""

    key_G: np.ndarray  # int64
    log_prob_G: np.ndarray  # float64
    log_backoff_G: np.ndarray  # float64

    def __len__(self) -> int:
        return len(self.key_G)


class Tables:
    """The orders 1..n of a backoff model. Order 1 holds all S symbols, in order."""

    def __init__(self, n_words: int, orders: Sequence[Order]) -> None:
        self.n_words = n_words
        self.start = n_words
        self.end = n_words + 1
        self.n_symbols = n_words + 2
        self.orders = tuple(orders)
        assert len(self.orders[0]) == self.n_symbols

    @property
    def n(self) -> int:
        return len(self.orders)

    def find(self, order: int, context_A: np.ndarray, symbol_A: np.ndarray) -> np.ndarray:
        """[A] rows at `order` of context + symbol, the context given by its row one order below; NOT_STORED if there is none.

        Every distinct n-gram is searched for once, in sorted order: the hypotheses of a list share most of theirs.
        """
        row_A = np.full(len(symbol_A), NOT_STORED)
        stored = np.flatnonzero(context_A != NOT_STORED)
        table_G = self.orders[order - 1].key_G
        if len(stored) and len(table_G):
            key, inverse = np.unique(context_A[stored] * self.n_symbols + symbol_A[stored], return_inverse=True)
            row = np.searchsorted(table_G, key)
            hit = table_G[np.minimum(row, len(table_G) - 1)] == key
            row_A[stored] = np.where(hit, row, NOT_STORED)[inverse]
        return row_A

    def step(
        self, order: int, context_A: np.ndarray, symbol_A: np.ndarray, lower_A: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The recursion above, one order up: from log p(symbol | h') in `lower_A` to (rows of h symbol, log p(symbol | h))."""
        row_A = self.find(order, context_A, symbol_A)
        log_prob_A = lower_A + _read(self.orders[order - 2].log_backoff_G, context_A, np.zeros(len(context_A)))
        return row_A, _read(self.orders[order - 1].log_prob_G, row_A, log_prob_A)

    def extend(self, context_KA: np.ndarray, symbol_A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One symbol after each context: ([n, A] rows of the n-grams that end in it, [n, A] log p of it given 0..K words).

        Row k - 1 of a context is the row of its last k symbols among the k-grams. The first K of the rows that come back
        are the context of the symbol after.
        """
        row_nA = np.empty((self.n, len(symbol_A)), np.int64)
        log_prob_nA = np.empty((self.n, len(symbol_A)))
        row_nA[0] = symbol_A
        log_prob_nA[0] = self.orders[0].log_prob_G[symbol_A]
        for k in range(1, self.n):
            row_nA[k], log_prob_nA[k] = self.step(k + 1, context_KA[k - 1], symbol_A, log_prob_nA[k - 1])
        return row_nA, log_prob_nA

    def walk(self, symbol_T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`extend` along marked sentences laid end to end: ([n, T] rows, [T] log p of each symbol given those before it).

        Nothing is carried over a start symbol, because no n-gram holds one after another symbol; its own log p means nothing.
        """
        row_nT = np.empty((self.n, len(symbol_T)), np.int64)
        row_nT[0] = symbol_T
        log_prob_T = self.orders[0].log_prob_G[symbol_T]
        for k in range(1, self.n):
            row_nT[k], log_prob_T = self.step(k + 1, np.roll(row_nT[k - 1], 1), symbol_T, log_prob_T)
        return row_nT, log_prob_T

    def start_context(self, n_contexts: int) -> np.ndarray:
        """[K, A] the context before the first word of a sentence."""
        context_KA = np.full((self.n - 1, n_contexts), NOT_STORED)
        context_KA[:1] = self.start
        return context_KA


def _read(value_G: np.ndarray, row_A: np.ndarray, otherwise_A: np.ndarray) -> np.ndarray:
    """[A] the value of each row, and `otherwise_A` where nothing is stored."""
    stored = np.flatnonzero(row_A != NOT_STORED)
    result_A = otherwise_A.copy()
    result_A[stored] = value_G[row_A[stored]]
    return result_A


def mark(ids_N: np.ndarray, lengths_B: np.ndarray, n_words: int) -> np.ndarray:
    """[N + 2B] the sentences laid end to end, each between a start and an end symbol."""
    start_B = first_symbol(lengths_B)
    end_B = start_B + lengths_B + 1
    symbol_T = np.empty(len(ids_N) + 2 * len(lengths_B), np.int64)
    is_word_T = np.ones(len(symbol_T), bool)
    is_word_T[start_B] = is_word_T[end_B] = False
    symbol_T[is_word_T] = ids_N
    symbol_T[start_B] = n_words
    symbol_T[end_B] = n_words + 1
    return symbol_T


def first_symbol(lengths_B: np.ndarray) -> np.ndarray:
    """[B] where the start symbol of each sentence stands in `mark`'s row."""
    marked_B = lengths_B + 2
    return np.cumsum(marked_B) - marked_B
