"""Word classes: by the bigram exchange algorithm (Martin, Liermann and Ney 1998), or by frequency; files of them.

A class bigram model, p(w | v) = p(w | g(w)) p(g(w) | g(v)), has on its training text the log-likelihood

    sum_{g,h} N(g,h) ln N(g,h) - 2 sum_g N(g) ln N(g) + sum_w N(w) ln N(w).

The exchange algorithm takes each word out of its class and puts it where the likelihood is highest, until nothing is gained.
The text is read as a ring in which a boundary, in a class of its own, separates sentences, so that N(g) counts class g as the
first and as the second of a pair alike.

Shapes: V words, C classes of words, K = C + 1 with the boundary's class, the last.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from trflm.errors import InputError
from trflm.files.cache import cached
from trflm.files.reader import read_lines
from trflm.files.writer import write_text
from trflm.text.batch import Batch
from trflm.text.packed import PackedText, Text
from trflm.text.vocab import Vocab

ROUNDING = 1e-6  # a gain in log-likelihood below this is none


@dataclass(frozen=True, eq=False)
class Exchange:
    """The classes after one pass over the vocabulary."""

    class_V: Tensor  # int64
    log_likelihood: float  # of the class bigram model on the text, natural log
    n_moved: int  # words that changed their class in this pass


def exchange_classes(sentences: Batch, n_words: int, n_classes: int, max_passes: int = 30) -> Exchange:
    """Classes of all words, after the first pass that moves no word or the last one allowed."""
    passes = islice(exchange_passes(sentences, n_words, n_classes), max_passes)
    last = next(passes)
    while last.n_moved and (following := next(passes, None)):
        last = following
    return last


def cached_exchange(sentences: Text, n_words: int, n_classes: int) -> Tensor:
    """[V] the classes that `exchange_classes` finds, at most as many as words: a minute's search, kept between runs."""
    if isinstance(sentences, PackedText):
        raise InputError(
            f"classes of words are made from a text in memory, and this one of {sentences.n_words:,} words is on disk; make "
            "them from a part of it and give them as classes_file, or do without (no class features in model.features, no "
            "proposal.exchange)"
        )
    n = min(n_classes, n_words)
    what, made_from = f"exchange {n}/{n_words}", (sentences.ids_N, sentences.lengths_B)
    return cached(what, made_from, lambda: {"class": exchange_classes(sentences, n_words, n).class_V})["class"]


def exchange_passes(sentences: Batch, n_words: int, n_classes: int) -> Iterator[Exchange]:
    """One state per pass, forever.

    At the start the most frequent words have a class each and all others share the last one; words not in the text stay there.
    """
    if not 1 <= n_classes <= n_words:
        raise InputError(f"{n_classes} classes for {n_words} words; give 1 to {n_words}")
    counts = _BigramCounts(sentences, n_words)
    by_rank = np.argsort(-counts.word_count[:n_words], kind="stable")
    class_of = np.empty(n_words + 1, np.int64)
    class_of[by_rank] = np.minimum(np.arange(n_words), n_classes - 1)
    class_of[n_words] = n_classes
    table = _ClassCounts(counts, class_of, n_classes)
    in_text = [int(word) for word in by_rank if counts.word_count[word] > 0]
    while True:
        n_moved = sum(table.exchange(word) for word in in_text)
        yield Exchange(torch.from_numpy(class_of[:n_words].copy()), table.log_likelihood(), n_moved)


class _BigramCounts:
    """Pairs of neighbours in the ring of the text; symbol V is the boundary."""

    def __init__(self, sentences: Batch, n_words: int) -> None:
        is_last = sentences.remaining_N.numpy() == 0
        ids = sentences.ids_N.numpy().astype(np.int64)
        ring = np.insert(ids, np.flatnonzero(is_last) + 1, n_words)
        S = n_words + 1
        self.word_count = np.bincount(ring, minlength=S)
        pair, self.count = np.unique(ring * S + np.roll(ring, -1), return_counts=True)
        self.first, self.second = np.divmod(pair, S)
        self.after = self._group(self.first, self.second, S)
        self.before = self._group(self.second, self.first, S)

    def _group(self, by: np.ndarray, other: np.ndarray, S: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(where each word's neighbours start, the neighbours, how often each)."""
        sort = np.argsort(by, kind="stable")
        return np.searchsorted(by[sort], np.arange(S + 1)), other[sort], self.count[sort]


class _ClassCounts:
    """N(g,h) and N(g) for the present classes, and N(g,h) ln N(g,h), kept up to date while words move."""

    def __init__(self, counts: _BigramCounts, class_of: np.ndarray, n_classes: int) -> None:
        self.words, self.class_of, self.C = counts, class_of, n_classes
        K = n_classes + 1
        self.pair = np.zeros((K, K), np.int64)
        np.add.at(self.pair, (class_of[counts.first], class_of[counts.second]), counts.count)
        self.single = self.pair.sum(1)
        x = np.arange(self.single.sum() + 1)
        self.x_ln_x = x * np.log(np.maximum(x, 1))  # for every count there can be
        self.pair_term = self.x_ln_x[self.pair]

    def log_likelihood(self) -> float:
        f = self.x_ln_x
        return float(f[self.pair].sum() - 2 * f[self.single].sum() + f[self.words.word_count].sum())

    def exchange(self, word: int) -> bool:
        """Move the word to the class where the log-likelihood is highest; whether that is another one than before."""
        old = int(self.class_of[word])
        after_K, itself = self._neighbours(self.words.after, word)
        before_K, _ = self._neighbours(self.words.before, word)
        self._add(old, after_K, before_K, itself, -1)
        gain_C = self._gain(after_K, before_K, itself)
        best = int(gain_C.argmax())
        if gain_C[best] - gain_C[old] < ROUNDING:
            best = old
        self._add(best, after_K, before_K, itself, +1)
        self.class_of[word] = best
        return best != old

    def _neighbours(self, groups: tuple[np.ndarray, np.ndarray, np.ndarray], word: int) -> tuple[np.ndarray, int]:
        """([K] how often a word of each class is the neighbour, not counting the word itself; how often the word itself is)."""
        start, neighbour, count = groups
        here = slice(start[word], start[word + 1])
        itself = int(count[here][neighbour[here] == word].sum())
        count_K = np.bincount(self.class_of[neighbour[here]], count[here], self.C + 1).astype(np.int64)
        count_K[self.class_of[word]] -= itself
        return count_K, itself

    def _gain(self, after_K: np.ndarray, before_K: np.ndarray, itself: int) -> np.ndarray:
        """[C] what the log-likelihood gains if a word that is in no class joins class k.

        N(k,h) grows by after(h), N(h,k) by before(h), and N(k,k) by both and the pairs of the word with itself.
        """
        f, C = self.x_ln_x, self.C
        h, j = np.flatnonzero(after_K), np.flatnonzero(before_K)
        gain_C = (f[self.pair[:C, h] + after_K[h]] - self.pair_term[:C, h]).sum(1)
        gain_C += (f[self.pair[j, :C] + before_K[j, None]] - self.pair_term[j, :C]).sum(0)
        same_C, after_C, before_C = self.pair.diagonal()[:C], after_K[:C], before_K[:C]
        gain_C += f[same_C + after_C + before_C + itself] + f[same_C] - f[same_C + after_C] - f[same_C + before_C]
        n_word = after_K.sum() + itself
        return gain_C - 2 * (f[self.single[:C] + n_word] - f[self.single[:C]])

    def _add(self, k: int, after_K: np.ndarray, before_K: np.ndarray, itself: int, sign: int) -> None:
        """Put a word into class k (sign +1) or take it out (-1)."""
        self.pair[k] += sign * after_K
        self.pair[:, k] += sign * before_K
        self.pair[k, k] += sign * itself
        self.single[k] += sign * (after_K.sum() + itself)
        self.pair_term[k] = self.x_ln_x[self.pair[k]]
        self.pair_term[:, k] = self.x_ln_x[self.pair[:, k]]


def frequency_classes(sentences: Text, n_words: int, n_classes: int) -> Tensor:
    """[V] classes of neighbours in frequency that each hold about 1/C of the text, the most frequent words in class 0.

    A word that holds more than its share leaves fewer than C classes; they are numbered without gaps.
    """
    count_V = sentences.word_counts(n_words)
    by_rank = torch.argsort(count_V, descending=True, stable=True)
    before = count_V[by_rank].cumsum(0) - count_V[by_rank]
    bin_of_rank = (before * n_classes // sentences.n_words).clamp(max=n_classes - 1)
    class_V = torch.empty(n_words, dtype=torch.int64)
    class_V[by_rank] = torch.unique(bin_of_rank, return_inverse=True)[1]
    return class_V


def write_classes(class_V: Tensor, vocab: Vocab, path: Path | str) -> None:
    """One line `word class` for every word of the vocabulary."""
    with write_text(path) as file:
        file.writelines(f"{word} {number}\n" for word, number in zip(vocab.words, class_V.tolist(), strict=True))


def read_classes(path: Path | str, vocab: Vocab) -> Tensor:
    """[V] the classes that `write_classes` wrote: every word of the vocabulary once, in any order, and no other."""
    line_of: dict[str, int] = {}
    class_V = torch.empty(len(vocab), dtype=torch.int64)
    for line in read_lines(path):
        fields = line.text.split()
        if not fields:
            continue
        if len(fields) != 2 or not (fields[1].isascii() and fields[1].isdecimal()):
            raise InputError(f"{path}:{line.number}: {line.text.strip()!r} is not 'word class' with a class number from 0")
        word, number = fields[0], int(fields[1][:18])
        if word not in vocab:
            raise InputError(
                f"{path}:{line.number}: {word!r} is not in the vocabulary; make the classes from the same vocabulary"
            )
        if word in line_of:
            raise InputError(f"{path}:{line.number}: {word!r} was already on line {line_of[word]}; remove one")
        if number >= len(vocab):
            raise InputError(
                f"{path}:{line.number}: class {number} of {word!r}: there are no more classes than words, {len(vocab)}"
            )
        line_of[word] = line.number
        class_V[vocab.index[word]] = number
    if len(line_of) < len(vocab):
        missing = next(word for word in vocab.words if word not in line_of)
        raise InputError(
            f"{path}: {len(vocab) - len(line_of)} words of the vocabulary have no class, {missing!r} first; add them"
        )
    return class_V
