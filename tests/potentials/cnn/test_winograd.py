import pytest
import torch
from harness import rng

from trflm.potentials.cnn import winograd


@pytest.mark.parametrize("n_groups", [1, 3, winograd.CHUNK + 1])
def test_equals_the_direct_sum_forward_and_backward(n_groups, compiled):
    """In float64 the two differ by rounding alone. More groups than fit one chunk, so that chunks are joined too."""
    n_rows = 6 * n_groups + 2
    h_RC = torch.randn(n_rows, 5, generator=rng(), dtype=torch.float64)
    weight = torch.randn(5, 3, 2, generator=rng(1), dtype=torch.float64, requires_grad=True)
    direct = sum(h_RC[o : n_rows - 2 + o] @ weight[:, o] for o in range(3))
    assert isinstance(direct, torch.Tensor)
    out_RS = winograd.convolve(winograd.points_of(h_RC), weight.detach(), n_rows)
    torch.testing.assert_close(out_RS[1:-1], direct.detach(), rtol=1e-11, atol=1e-11)
    assert not out_RS[0].any()
    assert not out_RS[-1].any()

    grad_RS = torch.randn(n_rows, 2, generator=rng(2), dtype=torch.float64)
    (expected,) = torch.autograd.grad(direct, weight, grad_RS[1:-1])
    torch.testing.assert_close(winograd.filter_gradient(winograd.points_of(h_RC), grad_RS), expected, rtol=1e-10, atol=1e-10)


def test_rows_missing_makes_whole_groups():
    assert [winograd.rows_missing(n) for n in (2, 3, 61, 62, 63)] == [0, 59, 1, 0, 59]
