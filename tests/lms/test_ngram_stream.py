"""Kneser-Ney from a text of any size is Kneser-Ney."""

import tracemalloc

import numpy as np
import pytest
import torch

from trflm.errors import InputError
from trflm.lms.ngram import KneserNeyConfig, NGram, kneser_ney
from trflm.lms.ngram import estimate as estimating
from trflm.lms.ngram import stream as streaming
from trflm.lms.ngram.stream import StreamEstimate
from trflm.text import Batch, Vocab
from trflm.text import packed as packing
from trflm.text.packed import PackedText, Tally, open_packed, write_packed

CONFIGS = [
    KneserNeyConfig(order=1),
    KneserNeyConfig(order=5),
    KneserNeyConfig(order=4, min_counts=(1, 1, 2)),
    KneserNeyConfig(order=3, min_counts=(1, 2), open_vocabulary=True),
]


@pytest.fixture
def packed(text: Batch, tmp_path, monkeypatch) -> PackedText:
    monkeypatch.setattr(packing, "BLOCK_WORDS", 300)
    pieces = ((one.ids_N.numpy(), one.lengths_B.numpy()) for one in map(text.select, torch.arange(len(text)).split(20)))
    write_packed(tmp_path / "text", pieces, 302, Tally)
    return open_packed(tmp_path / "text")


def check_same(one: NGram, other: NGram) -> None:
    for a, b in zip(one.tables.orders, other.tables.orders, strict=True):
        assert np.array_equal(a.key_G, b.key_G)
        np.testing.assert_allclose(a.log_prob_G, b.log_prob_G, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(a.log_backoff_G, b.log_backoff_G, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("config", CONFIGS, ids=["1", "5", "cut-offs", "open"])
@pytest.mark.parametrize("at_once", [1 << 20, 700])
def test_a_streamed_model_equals_the_one_in_memory(text, packed, vocab: Vocab, config, at_once, monkeypatch):
    """The same n-grams, and the same numbers but for rounding; with `at_once` 700 in a dozen shares."""
    expected = kneser_ney(text, vocab, config)
    monkeypatch.setattr(streaming, "MOST_AT_ONCE", at_once)
    stream = StreamEstimate(packed, len(vocab), config.order, config.min_counts, config.open_vocabulary)
    stream.at_once = at_once
    assert len(list(stream.shares(1))) == (1 if at_once > 10_000 else pytest.approx(9, abs=4))
    check_same(NGram(vocab, stream.tables(estimating.discounts_from)), expected)
    check_same(kneser_ney(packed, vocab, config), expected)


def test_where_memory_is_short_a_text_in_memory_is_streamed_too(text, vocab, monkeypatch):
    expected = kneser_ney(text, vocab)
    monkeypatch.setattr(estimating, "available_memory", lambda: 1000)
    used = []
    tables = StreamEstimate.tables
    monkeypatch.setattr(StreamEstimate, "tables", lambda self, of: used.append(1) or tables(self, of))
    check_same(kneser_ney(text, vocab), expected)
    assert used == [1]


def test_more_ngrams_than_memory_holds_are_refused_with_the_remedies(packed, vocab, monkeypatch):
    monkeypatch.setattr(streaming, "available_memory", lambda: 2 * 72 * 2000)
    message = r"n-grams of up to [2-5] words.*more than memory holds.*min_counts = \[1, 2.*lower the order.*ARPA file"
    with pytest.raises(InputError, match=message):
        kneser_ney(packed, vocab, KneserNeyConfig(order=5))
    kneser_ney(packed, vocab, KneserNeyConfig(order=5, min_counts=(1, 3)))  # the remedy it names


def random_text(n: int, length: int, n_words: int) -> Batch:
    ids = torch.randint(n_words, (n * length,), generator=torch.Generator().manual_seed(1), dtype=torch.int32)
    return Batch(ids, torch.full((n,), length))


def streamed(text: Batch, vocab: Vocab, order: int) -> NGram:
    return NGram(vocab, StreamEstimate(text, len(vocab), order, (1,), False).tables(estimating.discounts_from))


@pytest.mark.filterwarnings("ignore:.*too few to estimate:UserWarning")
def test_keys_of_tables_do_not_fit_in_32_bits():
    """30,000 bigrams before 100,000 words: keys up to 3e9."""
    vocab, text = Vocab(["<unk>", *(f"w{i}" for i in range(99_999))]), random_text(3000, 10, 100_000)
    check_same(streamed(text, vocab, 3), kneser_ney(text, vocab, KneserNeyConfig(order=3)))


@pytest.mark.filterwarnings("ignore:.*too few to estimate:UserWarning")
def test_little_more_than_the_model_is_held(monkeypatch):
    """Random words: hardly an n-gram of three words or more comes twice, so the model is large beside its text."""
    monkeypatch.setattr(streaming, "FEWEST_AT_ONCE", 1 << 16)
    monkeypatch.setattr(streaming, "PART", 1 << 16)
    vocab, text = Vocab(["<unk>", *(f"w{i}" for i in range(1999))]), random_text(40_000, 10, 2000)
    tracemalloc.start()
    tables = streamed(text, vocab, 5).tables
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    model = sum(array.nbytes for order in tables.orders for array in (order.key_G, order.log_prob_G, order.log_backoff_G))
    assert model > 20e6
    assert most < 1.95 * model  # 1.83; with each column in 64 bits 2.01


def test_a_long_text_is_streamed_even_where_memory_is_ample(text, vocab, monkeypatch):
    expected = kneser_ney(text, vocab)
    monkeypatch.setattr(estimating, "MOST_BYTES", 1000)
    tables = StreamEstimate.tables
    used = []
    monkeypatch.setattr(StreamEstimate, "tables", lambda self, of: used.append(1) or tables(self, of))
    check_same(kneser_ney(text, vocab), expected)
    assert used == [1]
