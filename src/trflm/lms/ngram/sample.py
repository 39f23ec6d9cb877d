"""Draw next words from a backoff model, for many contexts at once.

A word drawn from p(. | h) is, with probability sum_w p(w | h) over the stored n-grams h w, the last word of one of those;
otherwise it is a word drawn from p(. | h') that is not stored after h (h' is h without its first word). So: go down from the
longest context until a stored n-gram is chosen; if an order above stores the word, it is refused there, and the draw starts
again one order below that. The expected number of draws at h' for one at h is the backoff weight of h, so refusals are cheap.

If the sentence may not end, every order works on p(w | h) / (1 - p(end | h)) in the same way.

Shapes: n the order, K = n - 1, A contexts, G n-grams of one order, P of the order below.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator

from trflm.lms.ngram.tables import NOT_STORED, Tables


@dataclass(frozen=True, eq=False)
class _Choices:
    """What may be drawn at each order: the n-grams low .. high - 1, with `mass` out of the `total` probability allowed."""

    low_nA: np.ndarray
    high_nA: np.ndarray
    mass_nA: np.ndarray
    total_nA: np.ndarray

    def select(self, index: np.ndarray) -> "_Choices":
        return _Choices(self.low_nA[:, index], self.high_nA[:, index], self.mass_nA[:, index], self.total_nA[:, index])


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

    def draw(self, context_KA: np.ndarray, may_end: bool, rng: Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One symbol after each context: ([A] symbols, [n, A] their rows as in `Tables.extend`, [A] log of the density).

        With `may_end` a symbol is a word or the end and the density is p(w | h), without it p(w | h) / (1 - p(end | h)).
        """
        K, A = context_KA.shape
        choices, log_rest_A = self._choices(context_KA, may_end)
        symbol_A, row_nA, log_prob_A = np.empty(A, np.int64), np.empty((K + 1, A), np.int64), np.empty(A)
        todo, top = np.arange(A), np.full(A, K)
        while len(todo):
            symbol, level = self._descend(choices.select(todo), top, rng)
            row, log_prob = self.tables.extend(context_KA[:, todo], symbol)
            refused = (row != NOT_STORED) & (np.arange(K + 1)[:, None] > level)
            again = refused.any(0)
            done = todo[~again]
            symbol_A[done], row_nA[:, done], log_prob_A[done] = symbol[~again], row[:, ~again], log_prob[-1, ~again]
            todo, top = todo[again], refused.argmax(0)[again] - 1
        return symbol_A, row_nA, log_prob_A - log_rest_A

    def _choices(self, context_KA: np.ndarray, may_end: bool) -> tuple[_Choices, np.ndarray]:
        """The choices after each context, and [A] log of the probability of all symbols allowed there."""
        tables, A = self.tables, context_KA.shape[1]
        context_nA = np.concatenate([np.zeros((1, A), np.int64), context_KA])
        if may_end:
            end_stored_nA, total_nA = np.zeros(context_nA.shape, bool), np.ones(context_nA.shape)
        else:
            end_row_nA, log_end_nA = tables.extend(context_KA, np.full(A, tables.end))
            end_stored_nA, total_nA = end_row_nA != NOT_STORED, -np.expm1(log_end_nA)
        log_rest_A = np.log(total_nA[-1])
        low_nA, high_nA, mass_nA = np.zeros_like(context_nA), np.zeros_like(context_nA), np.zeros(context_nA.shape)
        for k, (first, cumulative) in enumerate(zip(self.first, self.cumulative, strict=True)):
            at = np.flatnonzero(context_nA[k] != NOT_STORED)
            low = first[context_nA[k, at]]
            high = first[context_nA[k, at] + 1] - end_stored_nA[k, at]  # the end is the last of its neighbours
            low_nA[k, at], high_nA[k, at], mass_nA[k, at] = low, high, cumulative[high] - cumulative[low]
        # Where every symbol is stored, nothing is left to the orders below, whatever the rounding says.
        all_stored_nA = high_nA - low_nA >= tables.n_words + may_end
        return _Choices(low_nA, high_nA, mass_nA, np.where(all_stored_nA, mass_nA, total_nA)), log_rest_A

    def _descend(self, choices: _Choices, top_A: np.ndarray, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
        """[A] symbols and the order index each was drawn at, going down from `top_A`."""
        symbol_A, level_A = np.empty(len(top_A), np.int64), np.full(len(top_A), NOT_STORED)
        for k in range(self.tables.n - 1, -1, -1):
            at = np.flatnonzero((level_A == NOT_STORED) & (top_A >= k))
            point = torch.rand(len(at), generator=rng, dtype=torch.float64).numpy() * choices.total_nA[k, at]
            chosen = (point < choices.mass_nA[k, at]) | (k == 0)
            at, point = at[chosen], point[chosen]
            low, high, cumulative = choices.low_nA[k, at], choices.high_nA[k, at], self.cumulative[k]
            row = np.clip(np.searchsorted(cumulative, cumulative[low] + point, side="right") - 1, low, high - 1)
            symbol_A[at] = self.tables.orders[k].key_G[row] % self.tables.n_symbols
            level_A[at] = k
        return symbol_A, level_A
