"""A small text with the statistics of language: few frequent and many rare words, and words that depend on the one before."""

import pytest
import torch

from trflm.text import Batch, Vocab, pack


def markov_text(n_sentences: int, n_words: int, seed: int) -> Batch:
    """Sentences of a random bigram process with falling word frequencies, words 0..n_words-1 (0 is <unk>)."""
    generator = torch.Generator().manual_seed(seed)
    base = torch.arange(1, n_words + 1) ** -1.2
    follow = base * torch.rand(n_words, n_words, generator=generator) ** 12
    lengths = torch.randint(1, 12, (n_sentences,), generator=generator)
    word = torch.multinomial(base, n_sentences, replacement=True, generator=generator)
    columns = [word]
    for _ in range(10):
        word = torch.multinomial(follow[word], 1, generator=generator).squeeze(1)
        columns.append(word)
    keep = torch.arange(11) < lengths[:, None]
    return Batch(torch.stack(columns, 1)[keep], lengths)


@pytest.fixture(scope="session")
def text() -> Batch:
    once = markov_text(n_sentences=600, n_words=300, seed=1)
    return pack([once, *(once.select(torch.arange(n)) for n in (60, 30, 10))])  # long n-grams recur as well


@pytest.fixture(scope="session")
def vocab() -> Vocab:
    """The 300 words of the text and two that it never uses."""
    return Vocab(["<unk>", *(f"w{i}" for i in range(1, 300)), "never", "seen"])
