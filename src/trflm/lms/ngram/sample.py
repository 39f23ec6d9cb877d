"""Draw next words from a backoff model, for many contexts at once.

A word drawn from p(. | h) is, with probability sum_w p(w | h) over the stored n-grams h w, the last word of one of those;
otherwise it is a word drawn from p(. | h') that is not stored after h (h' is h without its first word). So: go down from the
longest context until a stored n-gram is chosen; if an order above stores the word, it is refused there, and the draw starts
again one order below that. The expected number of draws at h' for one at h is the backoff weight of h, so refusals are cheap.

If the sentence may not end, every order works on p(w | h) / (1 - p(end | h)) in the same way.

Shapes: n the order, K = n - 1, A contexts, G n-grams of one order, P of the order below.
"""

import numpy as np
import torch
from torch import Generator

from trflm.lms.ngram.tables import NOT_STORED, Tables


class WordSampler:
    """The tables once more, laid out for drawing: where the words after each context lie, and their cumulative probability."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.first: list[np.ndarray] = []  # per order [P + 1]: the n-grams of context row r are first[r] .. first[r + 1] - 1
        self.cumulative: list[np.ndarray] = []  # per order [G + 1]: probability of all n-grams before this one
        n_contexts = 1
        for order in tables.orders:
            self.first.append(np.searchsorted(order.key_G, np.arange(n_contexts + 1) * tables.n_symbols))
            self.cumulative.append(np.concatenate([[0.0], np.cumsum(np.exp(order.log_prob_G))]))
            n_contexts = len(order)

    def draw(self, context_KA: np.ndarray, may_end: bool, generator: Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One symbol after each context: ([A] symbols, [n, A] their rows as in `Tables.extend`, [A] log of the density).

        With `may_end` a symbol is a word or the end and the density is p(w | h), without it p(w | h) / (1 - p(end | h)).
        """
        tables, (K, A) = self.tables, context_KA.shape
        end_row_nA, log_end_nA = tables.extend(context_KA, np.full(A, tables.end))
        if may_end:
            log_end_nA = np.full_like(log_end_nA, -np.inf)
        # 1. At each order: the range of n-grams to choose from, their mass, and the mass of all that may be drawn.
        context_nA = np.concatenate([np.zeros((1, A), np.int64), context_KA])
        low_nA, high_nA = np.zeros_like(context_nA), np.zeros_like(context_nA)
        mass_nA, total_nA = np.zeros(context_nA.shape), -np.expm1(log_end_nA)
        for k, (first, cumulative) in enumerate(zip(self.first, self.cumulative, strict=True)):
            at = np.flatnonzero(context_nA[k] != NOT_STORED)
            low, high = first[context_nA[k, at]], first[context_nA[k, at] + 1]
            if not may_end:
                high = high - (end_row_nA[k, at] != NOT_STORED)  # the end is the last of its neighbours
            low_nA[k, at], high_nA[k, at] = low, high
            mass_nA[k, at] = cumulative[high] - cumulative[low]
        # Where every word is stored, nothing is left to the order below, whatever the rounding says.
        n_choices = tables.n_words + may_end
        total_nA = np.where(high_nA - low_nA >= n_choices, mass_nA, total_nA)
        total_nA[0] = mass_nA[0]
        # 2. Draw until no order refuses the word.
        symbol_A, row_nA = np.empty(A, np.int64), np.empty((K + 1, A), np.int64)
        log_prob_A = np.empty(A)
        todo, top = np.arange(A), np.full(A, K)
        while len(todo):
            symbol, level = self._descend(
                mass_nA[:, todo], total_nA[:, todo], low_nA[:, todo], high_nA[:, todo], top, generator
            )
            row, log_prob = tables.extend(context_KA[:, todo], symbol)
            refused = (row != NOT_STORED) & (np.arange(K + 1)[:, None] > level)
            again = refused.any(0)
            done = todo[~again]
            symbol_A[done], row_nA[:, done], log_prob_A[done] = symbol[~again], row[:, ~again], log_prob[-1, ~again]
            todo, top = todo[again], refused.argmax(0)[again] - 1
        return symbol_A, row_nA, log_prob_A - np.log1p(-np.exp(log_end_nA[-1]))

    def _descend(
        self,
        mass_nA: np.ndarray,
        total_nA: np.ndarray,
        low_nA: np.ndarray,
        high_nA: np.ndarray,
        top_A: np.ndarray,
        generator: Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """[A] symbols and the order index each was drawn at, going down from `top_A`."""
        symbol_A, level_A = np.empty(len(top_A), np.int64), np.full(len(top_A), NOT_STORED)
        for k in range(len(mass_nA) - 1, -1, -1):
            at = np.flatnonzero((level_A == NOT_STORED) & (top_A >= k))
            point = torch.rand(len(at), generator=generator, dtype=torch.float64).numpy() * total_nA[k, at]
            chosen = (point < mass_nA[k, at]) | (k == 0)
            at, point = at[chosen], point[chosen]
            low, high, cumulative = low_nA[k, at], high_nA[k, at], self.cumulative[k]
            row = np.clip(np.searchsorted(cumulative, cumulative[low] + point, side="right") - 1, low, high - 1)
            symbol_A[at] = self.tables.orders[k].key_G[row] % self.tables.n_symbols
            level_A[at] = k
        return symbol_A, level_A
