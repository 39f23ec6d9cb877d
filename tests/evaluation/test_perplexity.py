import pytest
import torch
from harness import random_batch, rng, tiny_vocab

from trflm.evaluation.perplexity import Perplexity, perplexity
from trflm.lms.lstm import LSTM, LSTMConfig


def test_a_uniform_model_has_as_many_choices_as_symbols():
    lstm = LSTM(tiny_vocab(6), LSTMConfig(3, 3, 1), rng())
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.zero_()
    measured = perplexity(lstm, random_batch(6, [3, 1, 7]))
    assert (measured.sentences, measured.words) == (3, 11)
    assert measured.perplexity == pytest.approx(7, rel=1e-6)  # six words and the end


def test_an_impossible_text():
    assert Perplexity(float("-inf"), 1, 2).perplexity == float("inf")
