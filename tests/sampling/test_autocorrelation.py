"""The integrated autocorrelation time of series whose time is known."""

import torch
from harness import rng

from trflm.sampling.autocorrelation import beyond_length, integrated_autocorrelation, recent


def autoregressive(rho: float, steps: int, chains: int) -> torch.Tensor:
    """x_t = rho x_{t-1} + noise: tau = (1 + rho) / (1 - rho)."""
    noise = torch.randn(steps, chains, generator=rng(1), dtype=torch.float64)
    rows = [noise[0] / (1 - rho**2) ** 0.5]
    for row in noise[1:]:
        rows.append(rho * rows[-1] + row)
    return torch.stack(rows)


def test_known_times():
    """1000 steps of 50 chains: within a tenth."""
    for rho in (0.0, 0.5, 0.8):
        tau = (1 + rho) / (1 - rho)
        assert abs(integrated_autocorrelation(autoregressive(rho, 1000, 50)) - tau) < 0.1 * tau


def test_what_all_chains_do_alike_is_no_correlation():
    series = autoregressive(0.0, 200, 50) + 10 * torch.linspace(0, 1, 200, dtype=torch.float64)[:, None]
    assert integrated_autocorrelation(series) < 1.3


def test_short_series_and_constant_ones():
    assert integrated_autocorrelation(torch.zeros(0, 5)) == 1
    assert integrated_autocorrelation(torch.ones(10, 5)) == 1


def test_recent_keeps_the_last_steps():
    history = torch.zeros(0, 2, dtype=torch.float64)
    for step in range(5):
        history = recent(history, torch.full((2,), float(step)), 3)
    assert history[:, 0].tolist() == [2, 3, 4]


def test_lengths_that_never_change_are_no_autocorrelation():
    """What chains have by their lengths stays for ever; independent draws beside it are independent."""
    lengths = torch.randint(1, 60, (300,), generator=rng(1))
    noise = torch.randn(100, 300, generator=rng(2)).double() * lengths.double().sqrt()
    value = -4.5 * lengths + noise + torch.arange(100).double()[:, None]
    assert integrated_autocorrelation(value) > 50
    assert integrated_autocorrelation(beyond_length(value, lengths)) < 1.3
    assert torch.equal(beyond_length(value[:, :1], lengths[:1]), torch.zeros(100, 1).double())
