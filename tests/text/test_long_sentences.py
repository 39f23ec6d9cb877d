"""A sentence too long to be scored at once is read in pieces, and has the same score."""

import pytest
import torch
from harness import random_batch, rng

from trflm.lms.lstm.model import LSTM, LSTMConfig
from trflm.potentials.blstm import BLSTM, BLSTMConfig
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.recurrent.recurrence import Recurrence, read_on
from trflm.text import Batch, Vocab, batch
from trflm.text.batch import in_parts

CNN_SIZE = CNNConfig(embedding=4, projection=5, bank_width=4, bank_filters=3, stack_layers=2, stack_filters=4, init=0.5)
SIZES = [5, 1, 90, 2, 2, 31, 33, 1]


@pytest.fixture
def short_parts(monkeypatch):
    """Parts of 32 words, in every module that knows of them."""
    import trflm.lms.lstm.model
    import trflm.potentials.blstm

    for module in (batch, trflm.lms.lstm.model, trflm.potentials.blstm):
        monkeypatch.setattr(module, "SCORING_WORDS", 32)


def test_long_sentences_are_parts_of_their_own(short_parts):
    text = random_batch(9, SIZES)
    parts = list(in_parts(text))
    assert [part.lengths_B.tolist() for part in parts] == [[5, 1], [90], [2, 2, 31], [33], [1]]
    assert torch.equal(torch.cat([part.ids_N for part in parts]), text.ids_N)
    for part in parts:
        assert [again.lengths_B.tolist() for again in in_parts(part)] == [part.lengths_B.tolist()]


def models():
    blstm = BLSTMConfig(embedding=4, units=5, layers=2, init=0.7)
    return {"cnn": CNN(CNN_SIZE, 9, rng()).double(), "blstm": BLSTM(blstm, 9, rng()).double()}


@pytest.mark.parametrize("kind", ["cnn", "blstm"])
def test_a_potential_in_pieces(kind, request):
    """In float64 the two differ by rounding alone."""
    potential, text = models()[kind], random_batch(9, [150])
    with torch.no_grad():
        phi_B, value_N = potential.score(text), potential.contributions(text)
        request.getfixturevalue("short_parts")
        torch.testing.assert_close(potential.score(text), phi_B, rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(potential.contributions(text), value_N, rtol=1e-11, atol=1e-11)


def test_no_position_of_the_cnn_sees_further_than_its_reach():
    cnn, text, at = CNN(CNN_SIZE, 9, rng()).double(), random_batch(9, [80]), 40

    def sees(place: int) -> bool:
        changed = text.ids_N.clone()
        changed[place] = 8 - changed[place] if changed[place] != 4 else 0
        return bool(cnn.contributions(Batch(changed, text.lengths_B))[at] != cnn.contributions(text)[at])

    seen = [place - at for place in range(80) if sees(place)]
    assert seen[0] < 0 < seen[-1]
    assert max(-seen[0], seen[-1]) < CNN_SIZE.reach


def test_an_lstm_in_pieces(request):
    lstm = LSTM(
        Vocab(["<unk>", *(f"w{n}" for n in range(8))]), LSTMConfig(embedding=4, hidden=5, layers=2, init=0.7), rng()
    ).double()
    text = Batch(torch.randint(9, (150,), generator=rng(1)), torch.tensor([150]))
    whole = lstm.explain(text)
    request.getfixturevalue("short_parts")
    pieces = lstm.explain(text)
    torch.testing.assert_close(pieces.word_N, whole.word_N, rtol=1e-6, atol=1e-6)  # logits are float32
    torch.testing.assert_close(pieces.rest_B, whole.rest_B, rtol=1e-6, atol=1e-6)


def test_reading_on_is_reading(compiled):
    gates_T4H, weight_4HH = torch.randn(20, 44, generator=rng(1)), torch.randn(44, 11, generator=rng(2)) / 3
    exact_TH, exact_c_TH = Recurrence.apply(gates_T4H.double(), weight_4HH.double(), [1] * 20)
    zero_H = torch.zeros(11)
    first_TH, c_H = read_on(gates_T4H[:7], weight_4HH, zero_H, zero_H)
    second_TH, c_H = read_on(gates_T4H[7:], weight_4HH, first_TH[-1], c_H)
    torch.testing.assert_close(torch.cat([first_TH, second_TH]).double(), exact_TH, rtol=0, atol=3e-6)
    torch.testing.assert_close(c_H.double(), exact_c_TH[-1], rtol=0, atol=3e-6)
    assert not zero_H.any()
