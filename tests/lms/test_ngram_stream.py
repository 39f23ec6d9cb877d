"""Kneser-Ney from a text of any size is Kneser-Ney."""

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
