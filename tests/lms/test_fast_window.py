"""The fast way of a step against the plain one, in float64; bf16 near it; the sampled softmax against all draws there are."""

from itertools import combinations

import pytest
import torch
from harness import rng, tiny_vocab
from torch import Tensor

from trflm.lms.lstm import LSTM, FastWindowLoss, LSTMConfig, SampledSoftmax, State, output_loss, window_loss
from trflm.recurrent.recurrence import advance, retreat

VOCAB = tiny_vocab(9)
WINDOW_TS = torch.randint(0, 10, (7, 4), generator=rng(3))


def an_lstm(dtype: torch.dtype, tied: bool = False, variational: bool = False) -> tuple[LSTM, State]:
    config = LSTMConfig(6, 6, 2, dropout=0.3, init=0.6, tied=tied, variational=variational)
    state = State(*(torch.randn(2, 4, 6, generator=rng(k)).to(dtype) / 2 for k in (4, 5)))
    return LSTM(VOCAB, config, rng(1)).to(dtype), state


def gradients(loss: Tensor, lstm: LSTM) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(lstm.parameters())))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("variational", [False, True])
def test_is_the_plain_loss_with_its_gradient_and_state(tied: bool, variational: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(output_loss, "ROWS_AT_ONCE", 5)  # several chunks, the last one shorter
    lstm, state = an_lstm(torch.float64, tied, variational)
    plain, plain_state = window_loss(lstm, WINDOW_TS, state, rng(2))
    fast, fast_state = FastWindowLoss(torch.float64)(lstm, WINDOW_TS, state, rng(2))
    torch.testing.assert_close(fast.detach().float(), plain.detach(), rtol=1e-6, atol=0)  # the plain one sums in float32
    for mine, expected in zip(fast_state, plain_state, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-12, atol=1e-14)
    for mine, expected in zip(gradients(2 * fast, lstm), gradients(2 * plain, lstm), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-5, atol=1e-7)


def test_products_in_bf16_are_near_those_in_float32(compiled):
    """bf16 has 8 bits: a product is off by at most 0.4 %, the gradient of a window by a few."""
    lstm, state = an_lstm(torch.float32)
    plain, _ = window_loss(lstm, WINDOW_TS, state, rng(2))
    fast, fast_state = FastWindowLoss(torch.bfloat16)(lstm, WINDOW_TS, state, rng(2))
    assert fast_state.c_KSH.dtype == torch.float32
    assert fast.item() == pytest.approx(plain.item(), rel=5e-3)
    for mine, expected in zip(gradients(fast, lstm), gradients(plain, lstm), strict=True):
        assert mine.dtype == torch.float32
        assert 0 < float((mine - expected).norm() / expected.norm()) < 0.03


def test_back_through_a_step_in_float32_is_near_float64(compiled):
    def into(dtype: torch.dtype) -> list[Tensor]:
        gates_n4H, c_before, into_h, into_c = (
            torch.randn(shape, generator=rng(k)).to(dtype) for k, shape in enumerate([(3, 44), (3, 11), (3, 11), (3, 11)])
        )
        c, h, into_n4H = torch.empty_like(c_before), torch.empty_like(c_before), torch.empty_like(gates_n4H)
        advance(gates_n4H, c_before, c, h)
        retreat(gates_n4H, c_before, c, into_h, into_c, into_n4H)
        return [into_n4H, into_c]

    for mine, exact in zip(into(torch.float32), into(torch.float64), strict=True):
        torch.testing.assert_close(mine.double(), exact, rtol=1e-5, atol=3e-6)


def output_layer() -> tuple[Tensor, Tensor, Tensor]:
    """h_NH, weight_VH, bias_V."""
    h_NH, weight_VH = (torch.randn(n, 5, generator=rng(n), dtype=torch.float64) for n in (4, 8))
    return h_NH, weight_VH, torch.randn(8, generator=rng(), dtype=torch.float64)


def test_the_sampled_sum_is_unbiased_over_all_draws():
    h_NH, weight_VH, bias_V = output_layer()
    target_N = torch.tensor([6, 2, 7, 0])  # 6 and 2 are frequent, 7 and 0 are not
    softmax = SampledSoftmax.by_count(torch.tensor([1, 1, 9, 1, 1, 1, 8, 1]), 2, 3)
    assert softmax.frequent_F.tolist() == [2, 6]
    logits_NV = h_NH @ weight_VH.T + bias_V
    target_logit_N = logits_NV.gather(1, target_N[:, None])[:, 0]
    draws = list(combinations(softmax.others_R.tolist(), 3))
    assert len(draws) == 20
    totals = [
        softmax.log_total(h_NH, weight_VH, bias_V, target_N, target_logit_N, torch.tensor(draw), torch.float64).exp()
        for draw in draws
    ]
    # Given whether the target is among the drawn, the others are a simple random sample: the mean of each group is the sum.
    for n in range(4):
        hit = torch.tensor([int(target_N[n]) in draw for draw in draws])
        for group in (hit, ~hit):
            if group.any():
                mean = torch.stack(totals)[group, n].mean()
                torch.testing.assert_close(mean, logits_NV[n].exp().sum(), rtol=1e-12, atol=0)


def test_all_words_drawn_give_the_exact_loss_and_gradient():
    h_NH, weight_VH, bias_V = given = tuple(x.requires_grad_() for x in output_layer())
    target_N = torch.tensor([6, 2, 7, 0])
    softmax = SampledSoftmax.by_count(torch.tensor([1, 1, 9, 1, 1, 1, 8, 1]), 2, 99)
    sampled = softmax.loss(h_NH, weight_VH, bias_V, target_N, torch.float64, rng())
    exact = output_loss.exact_loss(h_NH, weight_VH, bias_V, target_N, torch.float64)
    torch.testing.assert_close(sampled, exact, rtol=1e-12, atol=0)
    for mine, expected in zip(torch.autograd.grad(sampled, given), torch.autograd.grad(exact, given), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-10, atol=1e-12)
