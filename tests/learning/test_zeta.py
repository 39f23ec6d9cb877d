"""The update of zeta, smooth or not, has one resting point: the exact ratios of the normalising constants."""

import pytest
import torch
from enumerable import Bigrams
from harness import rng

from trflm.learning.zeta import FlowSteps, ZetaSteps, hats, knots_of, two_stage
from trflm.sampling.jump import reach
from trflm.text.lengths import draw_from_cdf

M = 12
PI0 = torch.tensor([0.0, *[0.2] * 4, *[0.2 * 0.3**k for k in range(1, M - 3)]], dtype=torch.float64)
PI0 /= PI0.sum()
SMOOTH = 0.03


def test_knots_are_dense_where_sentences_are_frequent():
    assert knots_of(PI0, SMOOTH) == [1, 2, 3, 4, 5, 12]  # from 6 on all lengths have a mass of 0.029 together
    assert knots_of(PI0, 0.02) == [1, 2, 3, 4, 5, 6, 12]
    assert knots_of(PI0[:2], SMOOTH) == [1]


def test_hats_are_lines_between_knots():
    hats_mK = hats([1, 2, 6], 6)
    torch.testing.assert_close(hats_mK.sum(1), torch.ones(6, dtype=torch.float64))
    values_K = torch.tensor([5.0, 1.0, 9.0], dtype=torch.float64)
    torch.testing.assert_close(hats_mK @ values_K, torch.tensor([5.0, 1, 3, 5, 7, 9], dtype=torch.float64))
    torch.testing.assert_close(hats([1], 1), torch.ones(1, 1, dtype=torch.float64))


def test_a_smooth_step_is_the_formula():
    steps = ZetaSteps(PI0, cap=10.0, smooth=SMOOTH)
    share = torch.zeros(M + 1, dtype=torch.float64)
    share[7], share[2] = 0.01, 0.99
    excess, hats_mK = share - PI0, hats(knots_of(PI0, SMOOTH), M)
    expected = []
    for length in range(1, M + 1):
        value = 0.0
        for k in range(hats_mK.shape[1]):
            top = sum(float(hats_mK[j - 1, k] * excess[j]) for j in range(1, M + 1))
            value += (
                float(hats_mK[length - 1, k]) * top / (SMOOTH + sum(float(hats_mK[j - 1, k] * PI0[j]) for j in range(1, M + 1)))
            )
        if length in (6, 7, 8, 9, 10, 11):
            value += float(excess[length] / (SMOOTH + PI0[length]))
        expected.append(0.5 * value)
    found = steps.step(0.5, share)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64) - expected[0])


def test_nothing_rests_but_the_truth():
    """From shares that differ from pi0 to steps of zeta is one to one: shares sum to one, so m - 1 directions."""
    steps = ZetaSteps(PI0, cap=1e9, smooth=SMOOTH)
    assert float(steps.step(1.0, PI0).abs().max()) < 1e-15
    others = torch.eye(M + 1, dtype=torch.float64)[2:]
    others[:, 1] = -1
    steps_of = torch.stack([steps.step(1.0, PI0 + 1e-3 * other) for other in others])
    assert int(torch.linalg.matrix_rank(steps_of)) == M - 1


def test_two_stages():
    assert two_stage(7, 0.6, 0) == 7**-0.6
    assert two_stage(100, 0.6, 100) == 100**-0.6
    assert two_stage(101, 0.6, 100) == pytest.approx(1 / (1 + 100**0.6))
    assert two_stage(10_000, 0.6, 100) == pytest.approx(1e-4, rel=0.02)


def exact_zeta() -> torch.Tensor:
    """Of a bigram field; neighbouring lengths do not lie on a line."""
    log_Z = Bigrams(1.5 * torch.randn(4, 4, generator=rng(3))).log_Z(M)
    log_Z[2:] += 0.3 * torch.randn(M - 1, generator=rng(4), dtype=torch.float64)
    return log_Z - log_Z[1]


def learned(smooth: float, chains: int | None, steps: int, seed: int) -> torch.Tensor:
    """zeta by chains that are exact samples of (l, x) at every step; without a number, by exact probabilities."""
    zeta, truth = torch.zeros(M + 1, dtype=torch.float64), exact_zeta()
    zeta[1:] = torch.linspace(0, 20, M, dtype=torch.float64)
    rule, source = ZetaSteps(PI0, cap=10.0, smooth=smooth), rng(seed)
    for t in range(1, steps + 1):
        log_p = PI0.log() + truth - zeta
        share = log_p.softmax(0)
        if chains:
            lengths = draw_from_cdf(share.cumsum(0), chains, source)
            share = torch.bincount(lengths, minlength=M + 1).double() / chains
        zeta[1:] += rule.step(two_stage(t, 0.6, steps // 3) if chains else 2.0 if smooth else 0.5, share)
    return zeta


@pytest.mark.parametrize("smooth", [0.0, SMOOTH])
def test_zeta_comes_to_the_exact_ratios_of_all_lengths(smooth):
    """Also where pi0 is 1e-5, and where zeta is not smooth: the remainder gets there, if slowly."""
    error = (learned(smooth, None, 20_000 if smooth else 2000, 0) - exact_zeta())[1:].abs()
    assert float(error.max()) < 0.01


def test_rare_lengths_are_calmer_when_they_are_held_together():
    """100 chains, 600 steps, five runs: the plain rule throws zeta of a length that is hardly visited about."""
    rare = slice(8, M + 1)
    errors = {smooth: torch.stack([learned(smooth, 100, 600, s) - exact_zeta() for s in range(5)]) for smooth in (0.0, SMOOTH)}
    plain, smooth = (float(errors[s][:, rare].square().mean().sqrt()) for s in (0.0, SMOOTH))
    assert smooth < 0.5 * plain
    assert float(errors[SMOOTH][:, 1:6].abs().max()) < 0.1


def tilts(by_flows: bool, steps: int = 200) -> list[float]:
    """The error of zeta_40 after each step, where zeta_l starts 0.1 (l - 1) too high: 300 chains of lengths that jump to a
    neighbour and accept by the error alone, as chains do whose proposal is exact."""
    m, source = 40, rng(1)
    pi0 = torch.full((m + 1,), 1 / m, dtype=torch.float64)
    pi0[0] = 0
    counted, flowing = ZetaSteps(pi0, 10.0, 0.0), FlowSteps(pi0, 10.0, 0.0)
    error, lengths_C, found = torch.arange(-1, m).double() * 0.1, torch.randint(1, m + 1, (300,), generator=source), []
    for t in range(1, steps + 1):
        to_C = lengths_C + 2 * torch.randint(2, (300,), generator=source) - 1
        moving = ((to_C >= 1) & (to_C <= m)).nonzero().squeeze(1)
        accept = (error[lengths_C] - error[to_C.clamp(1, m)])[moving].exp().clamp(max=1)
        reach_kl = reach(lengths_C, moving, to_C[moving], accept, m)
        chosen = torch.rand(len(moving), generator=source) < accept
        lengths_C[moving[chosen]] = to_C[moving[chosen]]
        error[1:] += flowing.step(t**-0.7, reach_kl) if by_flows else counted.step(t**-0.2, reach_kl.sum(0) / 300)
        found.append(float(error[m]))
    return found


def test_flows_bring_zeta_home_without_swinging():
    """Counts, with the paper's gain, answer only after the chains have walked through 40 lengths: zeta goes about as
    far past the truth as it was off. Flows answer at once, and then scatter: by about 0.5 after 200 steps (12 seeds)."""
    counts, flows = tilts(by_flows=False), tilts(by_flows=True)
    assert min(counts) < -3
    assert max(map(abs, flows[20:])) < 2


def test_flows_are_balanced_between_lengths_that_have_chains():
    """Two lengths with one chain and three, and exact probabilities of going: no net flow, so zeta rests. A third length that
    none of them has takes no part."""
    pi0 = torch.tensor([0, 0.6, 0.3, 0.1], dtype=torch.float64)
    reach_kl = torch.zeros(4, 4, dtype=torch.float64)
    reach_kl[1, 1:], reach_kl[2, 1:] = torch.tensor([0.7, 0.2, 0.1]), 3 * torch.tensor([0.4, 0.5, 0.1])
    assert float(FlowSteps(pi0, 10.0, 0.01).step(1.0, reach_kl).abs().max()) < 1e-7
    reach_kl[2, 1:] = 3 * torch.tensor([0.3, 0.6, 0.1])  # less goes back: zeta_2 is too low
    assert float(FlowSteps(pi0, 10.0, 0.01).step(1.0, reach_kl)[1]) > 0.1
