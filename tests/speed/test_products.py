"""Products by oneDNN are those of torch, whatever lies how in memory."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from harness import rng

from trflm.speed import products
from trflm.speed.products import add_products, linear, multiply, onednn_pays, times


@pytest.fixture(params=[True, False], ids=["onednn", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param and not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this torch has no such product")
    monkeypatch.setattr(products, "onednn_pays", lambda: request.param)
    monkeypatch.setattr(products, "FEWEST", 0)


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=rng(len(shape)))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("shape", [(3, 5, 7), (300, 64, 33), (1, 1, 1)])
def test_products_are_the_sums(shape: tuple[int, int, int]):
    """fp32 sums of up to 64 numbers near 1, so that 1e-5 is a hundred roundings."""
    A, B, C = shape
    left, right = drawn(2, A, B), drawn(2, B, C)
    wanted = (left.double() @ right.double()).float()
    across = left.transpose(1, 2).contiguous().transpose(1, 2), right.transpose(1, 2).contiguous().transpose(1, 2)
    for one, other in ((left, right), across):
        torch.testing.assert_close(times(one[0], other[0]), wanted[0], rtol=1e-5, atol=1e-5)
        out = torch.empty(A, C)
        multiply(one[0], other[0], out)
        torch.testing.assert_close(out, wanted[0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(products.products(one, other), wanted, rtol=1e-5, atol=1e-5)
        total = torch.ones(2, A, C)
        assert add_products(total, one, other) is total
        torch.testing.assert_close(total, wanted + 1, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("with_bias", [True, False])
def test_linear_has_the_gradients_of_torch(with_bias: bool):
    x, weight, bias = drawn(30, 20), drawn(25, 20), drawn(25) if with_bias else None
    factors = [tensor for tensor in (x, weight, bias) if tensor is not None]
    into = drawn(30, 25, 1).squeeze(2)

    def gradients(function: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
        leaves = [tensor.clone().requires_grad_() for tensor in factors]
        output = function(*leaves)
        return [output.detach(), *torch.autograd.grad((output * into).sum(), leaves)]

    for found, wanted in zip(gradients(linear), gradients(F.linear), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    alone = x.clone().requires_grad_()  # weights that are held
    assert torch.autograd.grad(linear(alone, weight).sum(), alone)[0].shape == x.shape


@pytest.mark.usefixtures("way")
def test_other_numbers_are_left_to_torch():
    left, right = drawn(4, 5).double(), drawn(5, 6).double()
    assert torch.equal(times(left, right), left @ right)
    assert torch.equal(linear(left, right.t()), F.linear(left, right.t()))


def test_the_cpu_is_asked(monkeypatch: pytest.MonkeyPatch):
    """Without AVX-512 there is nothing to gain."""
    onednn_pays.cache_clear()
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert not onednn_pays()
    onednn_pays.cache_clear()
