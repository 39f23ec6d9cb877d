"""The weak language model that steers the search: a bigram over the recogniser's words.

Shapes: W words of the lexicon, G stored bigrams. The word before the first counts as word -1.
"""

import warnings
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from trflm.lms.ngram.estimate import KneserNeyConfig, kneser_ney
from trflm.simulate.pronunciations import Lexicon
from trflm.text import Batch, Vocab
from trflm.text.vocab import UNK


class BigramTable(NamedTuple):
    """log p(w | v) = log_prob of the key (v + 1) W + w where it is stored, backoff[v + 1] + unigram[w] elsewhere."""

    n_words: int
    key_G: np.ndarray  # rising
    log_prob_G: np.ndarray
    backoff_W1: np.ndarray
    unigram_W: np.ndarray


class Prior:
    """A bigram and the probability of ending a sentence after each word; natural logs."""

    def __init__(self, table: BigramTable, end_W1: np.ndarray) -> None:
        self._table, self._end_W1 = table, end_W1

    @property
    def unigram_W(self) -> np.ndarray:
        return self._table.unigram_W

    def table(self) -> BigramTable:
        return self._table

    def bigram(self, before: int, word: int) -> float:
        table = self._table
        key = (before + 1) * table.n_words + word
        at = int(np.searchsorted(table.key_G, key))
        if at < len(table.key_G) and table.key_G[at] == key:
            return float(table.log_prob_G[at])
        return float(table.backoff_W1[before + 1] + table.unigram_W[word])

    def end(self, before: int) -> float:
        return float(self._end_W1[before + 1])

    def sentence(self, words: Sequence[int]) -> float:
        """log p(words and the end)."""
        return sum(self.bigram(before, word) for before, word in zip((-1, *words), words, strict=False)) + self.end(words[-1])

    @classmethod
    def uniform(cls, n_words: int) -> "Prior":
        """Every word and the end alike."""
        log_prob = -np.log(n_words + 1)
        table = BigramTable(n_words, np.zeros(0, np.int64), np.zeros(0), np.zeros(n_words + 1), np.full(n_words, log_prob))
        return cls(table, np.full(n_words + 1, log_prob))

    @classmethod
    def estimate(cls, lexicon: Lexicon, text: Iterable[Sequence[str]]) -> "Prior":
        """Modified Kneser-Ney on a text; its words outside the lexicon are `<unk>`, which is never proposed."""
        vocab = Vocab([UNK, *lexicon.words])
        ids = [vocab.encode(words) for words in text if words]
        batch = Batch(torch.from_numpy(np.concatenate(ids)).long(), torch.tensor([len(words) for words in ids]))
        with warnings.catch_warnings(
            action="ignore"
        ):  # a small text has too few counts for discounts of its own: good enough here
            tables = kneser_ney(batch, vocab, KneserNeyConfig(order=2)).tables
        one, two = tables.orders
        # Symbols of the tables: 0 <unk>, 1..W the words, then start and end. Ours: -1 start, 0..W-1 the words.
        before, word = two.key_G // tables.n_symbols, two.key_G % tables.n_symbols
        W = len(lexicon)
        before = np.where(before == tables.start, -1, before - 1)
        stored = ((before >= 0) | (two.key_G // tables.n_symbols == tables.start)) & (word >= 1) & (word <= W)
        key = (before[stored] + 1) * W + word[stored] - 1
        order = np.argsort(key)
        contexts = np.concatenate([[tables.start], np.arange(1, W + 1)])
        backoff_W1 = one.log_backoff_G[contexts]
        table = BigramTable(W, key[order], two.log_prob_G[stored][order], backoff_W1, one.log_prob_G[1 : W + 1].copy())
        end_W1 = tables.extend(contexts[None], np.full(W + 1, tables.end))[1][-1]
        return cls(table, end_W1)
