"""The output layer with products in bf16, and draws by it, against torch's operations on the same rounded factors."""

import pytest
import torch
from harness import rng

from trflm.lms.lstm import LSTM, LSTMConfig, output_bf16
from trflm.lms.lstm.output_bf16 import Output16
from trflm.text import Vocab

V, H = 400, 16


@pytest.fixture
def layer() -> Output16:
    return Output16(torch.randn(V, H, generator=rng(1)), torch.randn(V, generator=rng(2)))


def rounded_logits(layer: Output16, h_PH: torch.Tensor) -> torch.Tensor:
    """[P, V] float64, of products rounded to bf16."""
    return (h_PH.bfloat16() @ layer.weight_VH.t()).double() + layer.bias_V


def test_totals_are_those_of_the_logits(layer, monkeypatch):
    """In blocks of any size; 5e-6 is a hundred roundings of fp32. With logits up to 1000 some sums are all but one word's."""
    for scale in (1.0, 100.0):
        h_PH = scale * torch.randn(70, H, generator=rng(3))
        wanted = rounded_logits(layer, h_PH).logsumexp(1)
        for rows, words in ((512, 1024), (64, 37), (7, 1)):
            monkeypatch.setattr(output_bf16, "ROWS", rows)
            monkeypatch.setattr(output_bf16, "WORDS", words)
            torch.testing.assert_close(layer.log_totals(h_PH).double(), wanted, rtol=5e-6, atol=2e-6)


def test_a_symbol_has_the_sum_of_its_factors(layer):
    h_PH, from_E, symbol_E = torch.randn(5, H, generator=rng(3)), torch.tensor([0, 0, 4]), torch.tensor([7, 399, 0])
    wanted = h_PH.bfloat16().double() @ layer.weight_VH.double().t() + layer.bias_V
    torch.testing.assert_close(layer.logits(h_PH, from_E, symbol_E).double(), wanted[from_E, symbol_E], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("end", [True, False])
def test_a_draw_is_where_the_cumulative_probability_passes_the_level(layer, end):
    """3,000 levels, of which sums in another order may move a few to the word beside; great levels are of the last word."""
    h_PH = torch.randn(3000, H, generator=rng(3))
    level_P = torch.rand(3000, generator=rng(4), dtype=torch.float64)
    level_P[:20] = 1 - 1e-12
    logits_PV = rounded_logits(layer, h_PH)[:, : V if end else V - 1]
    passed_PV = logits_PV.softmax(1).cumsum(1) > level_P[:, None]
    drawn_P = layer.draw(h_PH, level_P, end)
    assert int((drawn_P != passed_PV.long().argmax(1)).sum()) <= 3 + 20
    assert int(drawn_P.max()) <= logits_PV.shape[1] - 1
    assert bool((drawn_P[:20] > V - 130).all())


def test_nan_is_seen(layer):
    h_PH = torch.randn(3, H, generator=rng(3))
    h_PH[1, 2] = torch.nan
    assert layer.log_totals(h_PH).isnan().tolist() == [False, True, False]


def test_draws_have_the_probabilities_of_the_model():
    """Of 40,000 drawn sentences those of each shape have their share: p from `log_prob` in fp32, which bf16 is within 2 % of.
    The standard deviation of a share is 0.0025 at most, so 0.012 is four of it and the rounding."""
    lstm = LSTM(Vocab(["<unk>", "a", "b"]), LSTMConfig(6, 8, 2, init=0.8), rng(0))
    shapes = ["a", "b", "<unk>", "a b", "b b", "a a b"]
    share = (lstm.log_prob(shapes) - lstm.log_not_empty()).exp()
    lstm.use_bf16(anyway=True)
    drawn = lstm.vocab.sentences(lstm.draw(40_000, rng(5)))
    found = torch.tensor([drawn.count(shape) / len(drawn) for shape in shapes])
    torch.testing.assert_close(found, share.float(), rtol=0.02, atol=0.01)
    assert drawn == lstm.vocab.sentences(lstm.draw(40_000, rng(5)))
    of_three = lstm.draw(50, rng(6), length=3)
    assert of_three.lengths_B.tolist() == [3] * 50
