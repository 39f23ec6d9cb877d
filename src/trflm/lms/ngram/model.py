"""The n-gram model: scores of sentences, samples, and spans proposed to a sampler.

Shapes: B sentences, N words in all, T symbols of the marked sentences, n the order, K = n - 1 words of context,
W words drawn or scored at once, L the longest sentence drawn.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from trflm.errors import InputError
from trflm.language_model import Directed, Explanation, check_ends
from trflm.lms.ngram.sample import WordSampler
from trflm.lms.ngram.tables import Order, Tables, first_symbol, mark
from trflm.text import Batch, Vocab


class NGram(Directed):
    """A backoff n-gram model over a vocabulary. It marks the start and the end of sentences itself.

    As a proposal it only ever adds words: the density of a span u after the words x is

        g(u | x) = prod_i p(u_i | x u_<i) / (1 - p(end | x u_<i)),

    which sums to one over all spans of a given length. `draw_spans` draws from it, `log_span` evaluates it.
    This holds for any model whose probabilities sum to one after every context, estimated here or read from a file.
    """

    batch_free = True
    drawn_at_once = 2000

    def __init__(self, vocab: Vocab, tables: Tables) -> None:
        assert tables.n_words == len(vocab)
        self.vocab = vocab
        self.tables = tables

    def n_parameters(self) -> int:
        """The number of n-grams, each with its probability (the backoff weights follow from them)."""
        return sum(len(order) for order in self.tables.orders)

    def explain(self, sentences: Batch | Sequence[str]) -> Explanation:
        batch = self.vocab.batch(sentences)
        symbol_T, _ = self._mark(batch)
        _, log_prob_T = self.tables.walk(symbol_T)
        word_N, rest_B = log_prob_T[symbol_T < self.tables.n_words], log_prob_T[symbol_T == self.tables.end]
        return Explanation(batch, _to_torch(word_N, batch), _to_torch(rest_B, batch))

    def draw_some(self, n: int, rng: Generator, length: int | None, burn_in: int) -> Batch:
        return self.draw(n, rng, None if length is None else torch.full((n,), length))

    def draw(self, n_sentences: int, rng: Generator, lengths_B: Tensor | None = None) -> Batch:
        """Sentences from p(x), given that there is a word at all; with `lengths_B`, from g(x) of these lengths."""
        context_KB = self.tables.start_context(n_sentences)
        if lengths_B is not None:
            return self._draw_spans(context_KB, lengths_B.cpu().numpy(), rng)[0]
        if self.tables.orders[0].log_prob_G[self.tables.end] == -np.inf:
            raise InputError("the end of a sentence has probability 0 in this model: give the length of the sentences to draw")
        columns: list[np.ndarray] = []
        going = np.arange(n_sentences)
        while len(going):
            symbol_W, row_nW, _ = self._sampler.draw(context_KB, bool(columns), rng)
            columns.append(np.full(n_sentences, self.tables.end))
            columns[-1][going] = symbol_W
            check_ends(len(columns))
            goes_on = symbol_W != self.tables.end
            going, context_KB = going[goes_on], row_nW[:-1, goes_on]
        symbol_BL = np.column_stack([np.empty((n_sentences, 0), np.int64), *columns])
        is_word_BL = symbol_BL != self.tables.end
        return Batch(torch.from_numpy(symbol_BL[is_word_BL]), torch.from_numpy(is_word_BL.sum(1)))

    def log_not_empty(self) -> float:
        """log of the probability that a sentence has a word."""
        _, log_end_n1 = self.tables.extend(self.tables.start_context(1), np.full(1, self.tables.end))
        return float(np.log1p(-np.exp(log_end_n1[-1, 0])))

    def draw_spans(self, batch: Batch, start_B: Tensor, length_B: Tensor, rng: Generator) -> tuple[Batch, Tensor]:
        """Spans of `length_B` words, each drawn from g given the first `start_B` words of its sentence, and [B] their log g."""
        span, log_q_B = self._draw_spans(self.context_after(batch, start_B), length_B.cpu().numpy(), rng)
        return span.to(batch.device), _to_torch(log_q_B, batch)

    def log_span(self, batch: Batch, start_B: Tensor, length_B: Tensor) -> Tensor:
        """[B] log g of the words start .. start + length - 1 of each sentence, given the words before them."""
        if bool((start_B + length_B > batch.lengths_B).any()):
            raise ValueError("a span reaches beyond the end of its sentence")
        symbol_T, first_B = self._mark(batch)
        row_nT, _ = self.tables.walk(symbol_T)
        length = length_B.cpu().numpy()
        sentence_W = np.repeat(np.arange(len(batch)), length)
        within_W = np.arange(len(sentence_W)) - (np.cumsum(length) - length)[sentence_W]
        at_W = (first_B + 1 + start_B.cpu().numpy())[sentence_W] + within_W
        _, _, log_q_W = self.extend(row_nT[:-1, at_W - 1], symbol_T[at_W])
        return _to_torch(np.bincount(sentence_W, log_q_W, len(batch)), batch)

    def context_after(self, batch: Batch, n_words_B: Tensor) -> np.ndarray:
        """[K, B] the rows of the last words among the first `n_words_B` of each sentence."""
        if bool((n_words_B > batch.lengths_B).any()):
            raise ValueError("a span starts beyond the end of its sentence")
        symbol_T, first_B = self._mark(batch)
        row_nT, _ = self.tables.walk(symbol_T)
        return row_nT[:-1, first_B + n_words_B.cpu().numpy()]

    def draw_words(self, context_KW: np.ndarray, rng: Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A word after each context: [W] words, [n, W] their rows, [W] log g."""
        return self._sampler.draw(context_KW, False, rng)

    def extend(self, context_KW: np.ndarray, word_W: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same for words that are given."""
        row_nW, log_prob_nW = self.tables.extend(context_KW, word_W)
        _, log_end_nW = self.tables.extend(context_KW, np.full(len(word_W), self.tables.end))
        return word_W, row_nW, log_prob_nW[-1] - np.log1p(-np.exp(log_end_nW[-1]))

    def to_state(self) -> dict[str, Any]:
        return {"ngram": self.to_tensors()}

    def to_tensors(self) -> dict[str, Tensor]:
        """All numbers of the model, for a model file; with the vocabulary they are the whole model."""
        return {
            f"{name}.{k}": torch.from_numpy(array)
            for k, order in enumerate(self.tables.orders, 1)
            for name, array in (("key", order.key_G), ("log_prob", order.log_prob_G), ("log_backoff", order.log_backoff_G))
        }

    @classmethod
    def from_tensors(cls, vocab: Vocab, tensors: Mapping[str, Tensor]) -> "NGram":
        """The model that `to_tensors` wrote."""
        n = sum(name.startswith("key.") for name in tensors)
        names = [[f"{name}.{k}" for name in ("key", "log_prob", "log_backoff")] for k in range(1, n + 1)]
        missing = {name for order in names for name in order} - tensors.keys()
        if n == 0 or missing:
            raise InputError(f"the tensors are not those of an n-gram model: {sorted(missing) or 'key.1'} missing")
        if len(tensors["key.1"]) != len(vocab) + 2:
            raise InputError(
                f"the n-gram model has {len(tensors['key.1']) - 2} words, the vocabulary {len(vocab)}; "
                "they do not belong together"
            )
        total = float(tensors["log_prob.1"].double().exp().sum())
        most = max(float(tensors[name].max()) for _, name, _ in names if len(tensors[name]))
        if most > 1e-4 or abs(total - 1) > 1e-2:
            raise InputError(f"the n-gram model is damaged: its words sum to {total:.4g}, its greatest log p is {most:.4g}")
        return cls(vocab, Tables(len(vocab), [Order(*(tensors[name].numpy() for name in order)) for order in names]))

    @cached_property
    def _sampler(self) -> WordSampler:
        return WordSampler(self.tables)

    def _mark(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """([T] the marked sentences, [B] where each starts)."""
        lengths = batch.lengths_B.cpu().numpy()
        return mark(batch.ids_N.cpu().numpy(), lengths, len(self.vocab)), first_symbol(lengths)

    def _draw_spans(self, context_KB: np.ndarray, length_B: np.ndarray, rng: Generator) -> tuple[Batch, np.ndarray]:
        word_BL = np.empty((len(length_B), length_B.max(initial=0)), np.int64)
        log_q_B = np.zeros(len(length_B))
        going = np.arange(len(length_B))
        for i in range(word_BL.shape[1]):
            goes_on = length_B[going] > i
            going, context_KB = going[goes_on], context_KB[:, goes_on]
            word_BL[going, i], row_nW, log_q_W = self.draw_words(context_KB, rng)
            log_q_B[going] += log_q_W
            context_KB = row_nW[:-1]
        is_word_BL = np.arange(word_BL.shape[1]) < length_B[:, None]
        return Batch(torch.from_numpy(word_BL[is_word_BL]), torch.from_numpy(length_B.astype(np.int64))), log_q_B


def _to_torch(value: np.ndarray, batch: Batch) -> Tensor:
    """float64 on the batch's device."""
    return torch.from_numpy(value).double().to(batch.device)
