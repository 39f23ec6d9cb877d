"""The LSTM in the one loop: the windows of Zaremba et al. by hand, the schedule, dev perplexity, continuing bit for bit."""

import copy
import dataclasses
import math

import pytest
import torch
from harness import rng, tiny_vocab

from trflm.learning import lstm as lstm_learning
from trflm.learning.loop import training
from trflm.learning.lstm import AdamConfig, LSTMLearner, SGDConfig
from trflm.lms.lstm import LSTM, LSTMConfig, Preserve, streams, train_step, windows
from trflm.seeds import generator
from trflm.text import Batch, Vocab

VOCAB: Vocab = tiny_vocab(7)
TEXT = VOCAB.batch(["w1 w2 w3 w4", "w5 w6", "w1 w6"] * 15)
SGD = SGDConfig(streams=3, window=6, lr=0.5, constant_epochs=1, decay=0.5, clip=0.3)
ADAM = AdamConfig(streams=3, window=6, lr=0.01, weight_decay=0.01)
FAST = AdamConfig(streams=3, window=6, lr=0.01, cosine_epochs=3, warm_up=0.5, bf16=True, sampled_epochs=1, frequent=2, drawn=3)


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


@pytest.mark.parametrize("config", [SGD, ADAM, FAST])
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


def test_a_cosine_falls_to_zero_after_a_straight_rise():
    config = AdamConfig(lr=2.0, cosine_epochs=4, warm_up=0.5)
    assert config.lr_at(0.0) == 0.0
    assert config.lr_at(0.25) == pytest.approx(0.5 * (1 + math.cos(math.pi / 16)))
    assert [config.lr_at(e) for e in (2.0, 3.0, 4.0)] == pytest.approx([1.0, 1 - math.sqrt(0.5), 0.0])
    assert config.lr_at(4.5) == 0.0  # and stays there


def test_the_fast_steps_are_sampled_first_then_exact():
    """Of seven symbols and the end, two are frequent: with so many drawn that all are in the sum, sampled and exact agree."""
    every, some = (dataclasses.replace(FAST, sampled_epochs=n, drawn=k) for n, k in ((0, 3), (1, 3)))
    of_all = dataclasses.replace(FAST, sampled_epochs=1, drawn=99)
    losses = [[m.metrics["loss"] for m in training(a_learner(c), None, epochs=2, seed=9)] for c in (every, some, of_all)]
    assert losses[0][0] == pytest.approx(losses[2][0], rel=1e-2) != losses[1][0]
    learner, per_epoch = a_learner(some), len(losses[0]) // 2
    exact_from_here = a_learner(every)
    list(training(learner, None, epochs=1, seed=9))
    exact_from_here.load_state_dict(copy.deepcopy(learner.state_dict()))
    assert exact_from_here.step(per_epoch, generator(9, "step", per_epoch))["loss"] == losses[1][per_epoch]


def test_a_cpu_without_bf16_computes_in_float32_and_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lstm_learning, "has_bf16", lambda: True)
    assert a_learner(FAST).notes == ["products in bf16, parameters and sums in fp32"]
    monkeypatch.setattr(lstm_learning, "has_bf16", lambda: False)
    exact = dataclasses.replace(FAST, sampled_epochs=0)
    learner, plain = a_learner(exact), a_learner(dataclasses.replace(exact, bf16=False))
    assert "no instructions for bf16" in learner.notes[0]
    assert not plain.notes
    losses = [[m.metrics["loss"] for m in training(x, None, epochs=1, seed=9)] for x in (learner, plain)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)  # the same sums in another order


@pytest.mark.parametrize("wrong", [{"drawn": 1}, {"warm_up": -1.0}, {"sampled_epochs": 1}])
def test_options_that_make_no_sense_are_refused(wrong: dict[str, float]):
    with pytest.raises(ValueError):
        AdamConfig(**wrong)  # type: ignore[arg-type]


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
