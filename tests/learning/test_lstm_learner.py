"""The LSTM in the one loop: the windows of Zaremba et al. by hand, the schedule, dev perplexity, continuing bit for bit."""

import copy
import math

import pytest
import torch
from harness import rng, tiny_vocab

from trflm.learning.loop import training
from trflm.learning.lstm import AdamConfig, LSTMLearner, SGDConfig
from trflm.lms.lstm import LSTM, LSTMConfig, Preserve, streams, train_step, windows
from trflm.seeds import generator
from trflm.text import Batch, Vocab

VOCAB: Vocab = tiny_vocab(7)
TEXT = VOCAB.batch(["w1 w2 w3 w4", "w5 w6", "w1 w6"] * 15)
SGD = SGDConfig(streams=3, window=6, lr=0.5, constant_epochs=1, decay=0.5, clip=0.3)
ADAM = AdamConfig(streams=3, window=6, lr=0.01, weight_decay=0.01)


def a_learner(config: SGDConfig | AdamConfig, text: Batch = TEXT) -> LSTMLearner:
    return LSTMLearner(LSTM(VOCAB, LSTMConfig(8, 8, 2, dropout=0.2, init=0.3), rng(1)), text, config)


def test_steps_are_those_of_the_windows_from_the_zero_state_of_every_epoch():
    learner, by_hand = a_learner(SGD), a_learner(SGD).lstm
    losses: list[float] = []
    for lr in (0.5, 0.25, 0.125):  # one constant epoch, then half of the last one's
        optimiser, state = torch.optim.SGD(by_hand.parameters(), lr=lr), by_hand.zero_state(3)
        for window in windows(streams(TEXT, by_hand.end, 3), 6):
            state, info = train_step(by_hand, optimiser, window, state, generator(9, "step", len(losses)), clip=0.3)
            losses.append(info.loss)
    assert learner.steps_per_epoch == len(losses) // 3
    assert [m.metrics["loss"] for m in training(learner, None, epochs=3, seed=9)] == losses


@pytest.mark.parametrize("config", [SGD, ADAM])
def test_state_continues_bit_for_bit(config: SGDConfig | AdamConfig):
    whole, first, second = (a_learner(config) for _ in range(3))
    rows = [(m.metrics, m.dev) for m in training(whole, TEXT, epochs=3, seed=5)]
    stop = whole.steps_per_epoch + 2  # inside an epoch: the state of the streams counts
    for moment in training(first, TEXT, epochs=3, seed=5):
        if moment.step == stop:
            break
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert [(m.metrics, m.dev) for m in training(second, TEXT, epochs=3, seed=5, steps_done=stop)] == rows[stop:]
    for a, b in zip(whole.lstm.parameters(), second.lstm.parameters(), strict=True):
        assert torch.equal(a, b)


def test_learns_and_reports_the_perplexity_of_the_text_read_in_order():
    learner = a_learner(AdamConfig(streams=3, window=6, lr=0.02, decay=0.9))
    dev = [m.dev for m in training(learner, TEXT, epochs=15, seed=1) if m.dev]
    assert dev[0]["dev_perplexity"] > 4 > 1.8 > dev[-1]["dev_perplexity"]  # the text repeats: almost nothing is open
    log_prob = float(Preserve(learner.lstm, 3).log_prob(TEXT).double().sum()) / (TEXT.n_words + len(TEXT))
    assert dev[-1]["criterion"] == pytest.approx(log_prob, rel=1e-6)
    assert dev[-1]["dev_perplexity"] == pytest.approx(math.exp(-log_prob), rel=1e-6)


def test_a_diverged_model_has_a_finite_perplexity():
    learner = a_learner(SGD)
    with torch.no_grad():
        learner.lstm.output_bias[0] = 1e4
    assert math.isfinite(learner.evaluate(VOCAB.batch(["w1 w2"]))["dev_perplexity"])
