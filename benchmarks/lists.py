"""N-best lists for benchmarks: real ones, or the exact best paths of made-up confusion networks.

A network has a slot for each word said: the word itself at cost 0, and others at random costs, among them none at all and two
words. Its n best paths share words, prefixes and windows much as a recogniser's do (see docs/measurements.md for the counts).
"""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from trflm.evaluation.formats import read_lists
from trflm.evaluation.nbest import NBest
from trflm.evaluation.second_pass.scores import distinct_sentences
from trflm.text import UNK, Batch, Vocab, read_corpus
from trflm.text.mapping import parse_mapping

MEAN_COST = 3.0  # of a wrong word; with this the windows of a made-up list are as many as of a real one
ALTERNATIVES = 6  # for each word, on average
DELETED, DOUBLED = 0.12, 0.12  # shares of the alternatives that are no word, or two


@dataclass(frozen=True)
class Lists:
    vocab: Vocab
    lists: list[Batch]  # the distinct sentences of each list
    text: Batch  # some text of the same language, to estimate an n-gram model from
    source: str


def make_lists(data: Path | None, n_lists: int, depth: int = 1000) -> Lists:
    """Real lists of DIR/nbest/wsj92 with the vocabulary of DIR/ptb; also if DIR is the nbest directory itself; else made up."""
    if data is None:
        rng = np.random.default_rng(0)
        lengths = np.clip(np.round(rng.gamma(6.0, 3.0, n_lists)), 3, 45).astype(int)
        return Lists(made_up_vocab(10_000), [made_up(rng, n, depth) for n in lengths], made_up_text(rng, 20_000), "made up")
    root = next((d for d in (data, data.parent, data.parent.parent) if (d / "ptb" / "train.txt.gz").exists()), None)
    lists = next(
        (f for f in (data / "nbest.txt.gz", data / "wsj92/nbest.txt.gz", data / "nbest/wsj92/nbest.txt.gz") if f.exists()), None
    )
    if root is None or lists is None:
        raise SystemExit(f"{data}: there is no nbest/wsj92/nbest.txt.gz with ptb/train.txt.gz beside nbest/")
    vocab = Vocab.from_text([root / "ptb" / "train.txt.gz"])
    text = read_corpus(root / "ptb" / "train.txt.gz", vocab).sentences.long()
    every = max(330 // n_lists, 1)
    chosen = islice(read_lists(lists, {}, ()), 0, every * n_lists, every)
    mapping = parse_mapping("ptb")
    batches = [vocab.batch(distinct_sentences(NBest.collect([one]), mapping).texts) for one in chosen]
    return Lists(vocab, batches, text, f"{lists.parent.name}/{lists.name}, {len(batches)} lists")


def made_up_vocab(n_words: int) -> Vocab:
    return Vocab([UNK, *(f"w{i}" for i in range(1, n_words))])


def zipf(rng: np.random.Generator, n: int, n_words: int) -> np.ndarray:
    """Words by Zipf's law, in vocabularies of any size."""
    ranks = np.exp(rng.random(n) * np.log(n_words / 2.7)) * 2.7 - 2.7
    return np.clip(ranks.astype(np.int64) + 1, 1, n_words - 1)


def made_up_text(rng: np.random.Generator, n_sentences: int, n_words: int = 10_000) -> Batch:
    lengths = np.clip(np.round(rng.gamma(4.4, 4.8, n_sentences)), 1, 82).astype(np.int64)
    return Batch(torch.from_numpy(zipf(rng, int(lengths.sum()), n_words)), torch.from_numpy(lengths))


def made_up(rng: np.random.Generator, length: int, depth: int, n_words: int = 10_000) -> Batch:
    """The `depth` best paths of a network of `length` slots, or as many as there are."""
    cost_H, words = np.zeros(1), np.zeros((1, 0), np.int64)  # of the paths so far, best first; -1 is no word
    for _ in range(length):
        n = 1 + rng.poisson(ALTERNATIVES)
        cost_A = np.concatenate([[0.0], rng.exponential(MEAN_COST, n - 1) + 0.1])
        word_A2 = np.stack([zipf(rng, n, n_words), np.full(n, -1)], 1)
        kind_A = rng.random(n)
        kind_A[0] = 1
        word_A2[kind_A < DELETED, 0] = -1
        doubled = (kind_A >= DELETED) & (kind_A < DELETED + DOUBLED)
        word_A2[doubled, 1] = zipf(rng, int(doubled.sum()), n_words)
        total = (cost_H[:, None] + cost_A).ravel()
        best = np.argsort(total, kind="stable")[:depth]
        cost_H = total[best]
        words = np.concatenate([words[best // n], word_A2[best % n]], 1)
    words = words[(words >= 0).any(1)]
    words = np.unique(np.take_along_axis(words, np.argsort(words < 0, 1, kind="stable"), 1), axis=0)  # words first
    inside = words >= 0
    return Batch(torch.from_numpy(words[inside]), torch.from_numpy(inside.sum(1)))
