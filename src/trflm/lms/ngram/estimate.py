"""Interpolated modified Kneser-Ney estimation (Chen and Goodman 1999), vectorised over all n-grams of an order.

    p(w | h) = (c(h w) - D(c(h w))) / c(h) + gamma(h) p(w | h'),     gamma(h) = sum_w D(c(h w)) / c(h),     c(h) = sum_w c(h w)

h' is h without its first symbol. c is the number of occurrences for the highest order and for n-grams that begin a sentence,
for all others the number of distinct symbols seen before the n-gram. Below the unigrams lies the uniform distribution,
1/(V + 1) for each word and the end. D(1), D(2) and D(3) = D(3+) come from n_j, the number of n-grams of that order with c = j:

    Y = n_1 / (n_1 + 2 n_2),     D(j) = j - (j + 1) Y n_{j+1} / n_j

A dropped n-gram (cut-offs, open vocabulary) keeps its place in c(h) and gives up all of its count: D = c.

Shapes: T symbols of the marked text, G distinct n-grams of one order, P of the order below, S symbols.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trflm.errors import InputError
from trflm.lms.ngram.model import NGram
from trflm.lms.ngram.stream import StreamEstimate
from trflm.lms.ngram.tables import NOT_STORED, Order, Tables, mark
from trflm.ranges import Count, NGramOrder
from trflm.speed.memory import available_memory
from trflm.text import Batch, Text, Vocab

UNK_ID = 0
TEXT_BYTES, MOST_BYTES = 300, 1 << 30  # of a symbol of the text while its n-grams are counted in memory; of all of them
FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)


@dataclass(frozen=True)
class KneserNeyConfig:
    """[model] kind = "ngram": modified Kneser-Ney.

    `min_counts`, from the unigrams up: n-grams that occur less often are dropped; the last value holds for all orders above.
    `open_vocabulary`: n-grams that contain `<unk>` are dropped and `<unk>` itself has its uniform share alone; otherwise it is
    a word like any other.
    """

    order: NGramOrder = 5  # words of the longest n-grams
    min_counts: tuple[Count, ...] = (1,)  # how often an n-gram must occur, from the unigrams up; the last holds for all above
    open_vocabulary: bool = False  # n-grams with <unk> are dropped; otherwise it is a word like any other
    kind: Literal["ngram"] = "ngram"

    def __post_init__(self) -> None:
        if self.order < 1:
            raise InputError(f"the order of an n-gram model is at least 1, not {self.order}")
        if not 1 <= len(self.min_counts) <= self.order:
            raise InputError(
                f"min_counts has {len(self.min_counts)} values, the model {self.order} orders; give 1 to {self.order}"
            )
        if self.min_counts[0] != 1 or sorted(self.min_counts) != list(self.min_counts):
            raise InputError(f"min_counts starts with 1 and never falls from one order to the next, not {self.min_counts}")

    def stored(self, vocab: Vocab, state: Mapping[str, Any]) -> NGram:
        """The model that `NGram.to_state` wrote."""
        return NGram.from_tensors(vocab, state["ngram"])


@dataclass(frozen=True, eq=False)
class Counts:
    """The distinct n-grams of one order in a text, by rising key as in `Tables`."""

    key_G: np.ndarray
    occurrences_G: np.ndarray
    suffix_G: np.ndarray  # row, one order below, of the n-gram without its first symbol


def kneser_ney(sentences: Text, vocab: Vocab, config: KneserNeyConfig | None = None) -> NGram:
    """Estimate a model from text. Where all n-grams at once would take much memory, they are counted in shares, those that are
    dropped are not held, and the text is read several times (`stream`): the same model but for rounding."""
    config = config or KneserNeyConfig()
    most = min(available_memory() // 2, MOST_BYTES)
    if not (isinstance(sentences, Batch) and TEXT_BYTES * (sentences.n_words + 2 * len(sentences)) < most):
        stream = StreamEstimate(sentences, len(vocab), config.order, config.min_counts, config.open_vocabulary)
        return NGram(vocab, stream.tables(discounts_from))
    S = len(vocab) + 2
    start = len(vocab)
    counts = count_ngrams(mark(sentences.ids_N.numpy(), sentences.lengths_B.numpy(), len(vocab)), S, config.order)
    keys, log_probs, log_backoffs = [], [], []
    prob_P, keep_P, has_unk_P = np.full(1, 1 / (len(vocab) + 1)), np.ones(1, bool), np.zeros(1, bool)  # order 0: the uniform
    for k, count in enumerate(counts, 1):
        parent_G, last_G = np.divmod(count.key_G, S)
        # 1. Counts.
        count_G = count.occurrences_G if k == config.order else _distinct_before(count, counts[k])
        if k == 1:
            count_G = count_G.copy()
            count_G[[start, UNK_ID] if config.open_vocabulary else [start]] = 0
        # 2. Discounts; what is dropped gives up its whole count.
        has_unk_G = has_unk_P[parent_G] | (last_G == UNK_ID)
        keep_G = count.occurrences_G >= config.min_counts[min(k, len(config.min_counts)) - 1]
        keep_G &= ~(has_unk_G & config.open_vocabulary)
        keep_G |= k == 1
        discount_G = np.where(keep_G, discounts(count_G, k)[np.minimum(count_G, 3)], count_G)
        # 3. The equation.
        total_P = np.bincount(parent_G, count_G, len(prob_P))
        gamma_P = np.ones(len(prob_P))
        np.divide(np.bincount(parent_G, discount_G, len(prob_P)), total_P, out=gamma_P, where=total_P > 0)
        prob_G = (count_G - discount_G) / total_P[parent_G] + gamma_P[parent_G] * prob_P[count.suffix_G]
        if k == 1:
            prob_G[start] = 0.0
        # 4. What is kept, numbered anew.
        kept_row_P = np.cumsum(keep_P) - 1
        keys.append(kept_row_P[parent_G[keep_G]] * S + last_G[keep_G])
        with np.errstate(divide="ignore"):
            log_probs.append(np.log(prob_G[keep_G]))
            log_backoffs.append(np.log(gamma_P[keep_P]))
        prob_P, keep_P, has_unk_P = prob_G, keep_G, has_unk_G
    log_backoffs = [*log_backoffs[1:], np.empty(0)]  # order 0 has no row of its own, the highest order no backoff
    orders = [Order(*arrays) for arrays in zip(keys, log_probs, log_backoffs, strict=True)]
    return NGram(vocab, Tables(len(vocab), orders))


def count_ngrams(symbol_T: np.ndarray, S: int, order: int) -> list[Counts]:
    """Count the n-grams of orders 1..`order`. Every symbol is a unigram, seen or not; the row of a unigram is its number."""
    counts = [Counts(np.arange(S), np.bincount(symbol_T, minlength=S), np.zeros(S, np.int64))]
    index_T = np.arange(len(symbol_T))
    position_T = index_T - np.maximum.accumulate(np.where(symbol_T == S - 2, index_T, 0))
    row_T = symbol_T  # of the n-gram one order below that ends here
    for k in range(2, order + 1):
        end = np.flatnonzero(position_T >= k - 1)  # places where an n-gram of this order ends
        key = row_T[end - 1] * S + symbol_T[end]
        sort = np.argsort(key)
        key = key[sort]
        first = np.flatnonzero(np.diff(key, prepend=NOT_STORED))  # of each run of equal keys
        counts.append(Counts(key[first], np.diff(first, append=len(key)), row_T[end[sort[first]]]))
        new = np.zeros(len(key), np.int64)
        new[first[1:]] = 1
        row_T = np.full(len(symbol_T), NOT_STORED)
        row_T[end[sort]] = np.cumsum(new)
    return counts


def _distinct_before(count: Counts, longer: Counts) -> np.ndarray:
    """[G] how many symbols were seen before each n-gram; where none ever is, at the start of a sentence, its occurrences."""
    distinct_G = np.bincount(longer.suffix_G, minlength=len(count.key_G))
    return np.where(distinct_G == 0, count.occurrences_G, distinct_G)


def discounts(count_G: np.ndarray, order: int) -> np.ndarray:
    """D(0) = 0, D(1), D(2), D(3+); where a small text does not determine them, 0.5, 1, 1.5 with a warning."""
    return discounts_from(np.bincount(np.minimum(count_G, 5), minlength=6)[:5].astype(float), order)


def discounts_from(n: np.ndarray, order: int) -> np.ndarray:
    """The same from the numbers n_0 .. n_4."""
    if (n[1:4] > 0).all():
        j = np.arange(1, 4)
        D = j - (j + 1) * (n[1] / (n[1] + 2 * n[2])) * n[2:5] / n[1:4]
        if (D > 0).all():
            return np.array([0.0, *D])
    warnings.warn(
        f"the {order}-grams of this text with counts 1 to 4 are {n[1:].astype(int).tolist()} in number, too few to estimate "
        f"Kneser-Ney discounts; {FALLBACK_DISCOUNTS} are used",
        stacklevel=4,
    )
    return np.array([0.0, *FALLBACK_DISCOUNTS])
