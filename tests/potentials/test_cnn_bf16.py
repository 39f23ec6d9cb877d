"""Training with products in bf16: the same numbers where nothing has to be rounded, and near them where it has."""

import pytest
import torch
from harness import random_batch, rng

from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.potentials.cnn.network import scoring_in_bf16
from trflm.potentials.cnn.score import product


def both_ways(cnn: CNN, weight_N: torch.Tensor, lengths: list[int]) -> list[list[torch.Tensor]]:
    """What each position adds, and the gradients: in fp32, then in bf16."""
    batch, found = random_batch(len(cnn.embedding), lengths), []
    for cnn.train_in_bf16 in (False, True):
        cnn.forget()
        cnn.zero_grad()
        value_N = cnn.contributions(batch)
        (value_N * weight_N).sum().backward()
        found.append([value_N.detach(), *(p.grad.clone() for p in cnn.parameters() if p.grad is not None)])
    return found


def test_numbers_of_few_bits_are_exact():
    """All parameters are -1, 0 or 1 and few: sums of products stay below 2^8, which bf16 holds exactly, there and back."""
    cnn = CNN(CNNConfig(embedding=2, projection=3, bank_width=3, bank_filters=3, stack_layers=2, stack_filters=3), 5)
    with torch.no_grad():
        for k, parameter in enumerate(cnn.parameters()):
            parameter.copy_(torch.randint(-1, 2, parameter.shape, generator=rng(20 + k)))
    lengths = [1, 5, 2, 3]
    in_fp32, in_bf16 = both_ways(cnn, torch.ones(sum(lengths)), lengths)
    assert max(float(value.abs().max()) for value in in_fp32) > 3
    assert sum(int((value != 0).sum()) for value in in_fp32[1:]) > 40
    for one, two in zip(in_fp32, in_bf16, strict=True):
        assert torch.equal(one, two)


@pytest.mark.usefixtures("numba")  # without it training multiplies in fp32
def test_rounding_is_small():
    """On 2,000 positions at the widths of minimal filtering: within 1 % in phi, and the gradients point the same way."""
    cnn = CNN(CNNConfig(embedding=32, projection=32, bank_width=4, bank_filters=32, stack_filters=32, init=0.2), 50, rng(1))
    lengths = [1, 3, 20, 40, 17, 9, 10] * 20
    in_fp32, in_bf16 = both_ways(cnn, torch.full((sum(lengths),), 1e-3), lengths)
    assert float((in_fp32[0] - in_bf16[0]).norm() / in_fp32[0].norm()) < 0.01
    for one, two in zip(in_fp32[1:], in_bf16[1:], strict=True):
        assert not torch.equal(one, two) or one.numel() == 1
        assert float(torch.cosine_similarity(one.flatten(), two.flatten(), dim=0)) > 0.999


def test_scoring_in_bf16_ends_with_its_block():
    """Scores are rounded within, and those of before come back: after an error too."""
    cnn = CNN(CNNConfig(embedding=8, projection=8, bank_width=3, bank_filters=16, stack_filters=16, init=0.3), 20, rng(1))
    batch = random_batch(20, [3, 9, 4])
    in_fp32 = cnn.score(batch)
    with scoring_in_bf16(cnn, True):
        in_bf16 = cnn.score(batch)
    assert not torch.equal(in_bf16, in_fp32)
    torch.testing.assert_close(in_bf16, in_fp32, rtol=0.03, atol=0.01)
    with scoring_in_bf16(cnn, False):
        assert torch.equal(cnn.score(batch), in_fp32)
    with pytest.raises(RuntimeError), scoring_in_bf16(cnn, True):
        raise RuntimeError
    assert torch.equal(cnn.score(batch), in_fp32)


@pytest.mark.parametrize("able", [True, False])
@pytest.mark.parametrize("beta", [0, 1])
def test_rows_multiplied_some_at_a_time_are_all_there(able, beta, monkeypatch):
    """10 rows, 3 at a time, of numbers that bf16 holds exactly."""
    monkeypatch.setattr("trflm.potentials.cnn.score.ROWS_BF16", 3)
    monkeypatch.setattr("trflm.potentials.cnn.score.has_bf16", lambda: able)
    cnn = CNN(CNNConfig(embedding=2, projection=2, bank_width=2, bank_filters=4, stack_filters=2), 5)
    cnn.score_in_bf16 = True
    h_DC, weight, out = (torch.randint(-2, 3, shape, generator=rng(3)).float() for shape in ((10, 4), (4, 3, 2), (10, 6)))
    expected = beta * out + h_DC @ weight.flatten(1)
    product(cnn, h_DC, weight, out, beta)
    assert torch.equal(out, expected)
