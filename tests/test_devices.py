"""Where networks compute. There is no GPU here: what one would run is run on the CPU with the compiled loops switched off, and
on torch's `meta` device, which has shapes but no numbers and refuses tensors of another device beside its own."""

import pytest
import torch
from commands import trf
from deploy.tiny_models import model
from harness import random_batch, rng, tiny_vocab

import trflm
from trflm.errors import InputError
from trflm.lms.lstm import LSTM, LSTMConfig, streams, window, window_loss
from trflm.speed import compiled as loops

SENTENCES = ["the cat ran", "a bird", "sat the dog ran a emu"]


@pytest.mark.parametrize("kind", ["cnn", "blstm", "lstm", "ngram"])
def test_scores_without_compiled_loops_are_those_with_them(kind, monkeypatch):
    expected = trflm.load(model(kind))
    monkeypatch.setattr(loops, "usable", lambda tensor: False)
    lm = trflm.load(model(kind), device="cpu")
    torch.testing.assert_close(lm.log_prob(SENTENCES), expected.log_prob(SENTENCES), rtol=1e-5, atol=1e-5)
    one, other = lm.explain(SENTENCES), expected.explain(SENTENCES)
    torch.testing.assert_close(one.word_N, other.word_N, rtol=1e-5, atol=1e-5)
    assert lm.log_prob(SENTENCES).device.type == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_one_message(tmp_path):
    with pytest.raises(InputError, match=r"device = 'cuda': cannot be used: .*; give cpu, or a device torch has"):
        trflm.load(model("cnn"), device="cuda")
    with pytest.raises(InputError, match="device = 'nonsense': cannot be used"):
        trflm.load(model("cnn"), device="nonsense")
    (tmp_path / "text").write_text("the cat\n")
    done = trf("score", model("cnn"), tmp_path / "text", "--device", "cuda")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("trf: device = 'cuda': cannot be used")
    done = trf("train", "tiny", "--out", tmp_path / "run", "--device", "cuda")
    assert done.returncode == 2
    assert done.stderr.startswith("trf: run.device = 'cuda': cannot be used")


def test_a_device_by_name_gives_the_scores_of_the_cpu(tmp_path):
    (tmp_path / "text").write_text("\n".join(SENTENCES) + "\n")
    plain, named = (trf("score", model("cnn"), tmp_path / "text", "--quiet", *more) for more in ((), ("--device", "cpu")))
    assert plain.returncode == named.returncode == 0
    assert plain.stdout == named.stdout


def test_an_lstm_makes_no_tensor_elsewhere():
    lstm = LSTM(tiny_vocab(6), LSTMConfig(embedding=4, hidden=5, layers=2, dropout=0.5), rng()).to("meta")
    text = streams(random_batch(6, [3, 5, 2, 7]), lstm.end, 2)
    loss, state = window_loss(lstm, window(text, 6, 0).to("meta"), lstm.zero_state(2), rng())
    assert (loss.device.type, loss.shape, state.h_KSH.shape) == ("meta", (), (2, 2, 5))
    loss.backward()
