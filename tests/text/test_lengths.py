import pytest
import torch
from harness import rng
from hypothesis import given
from hypothesis import strategies as st

from trflm.text import empirical_pi, training_pi0
from trflm.text.lengths import strata_from_cdf

lengths = st.lists(st.integers(1, 30), min_size=1).map(torch.tensor)


@given(lengths)
def test_both_sum_to_one_and_leave_length_0_out(lengths_B):
    pi = empirical_pi(lengths_B)
    pi0 = training_pi0(pi)
    for distribution in (pi, pi0):
        assert abs(float(distribution.sum()) - 1) < 1e-12
        assert distribution[0] == 0
    assert (pi0[1:] > 0).all()


def test_pi_is_the_share_of_each_length():
    assert empirical_pi(torch.tensor([1, 3, 3, 2])).tolist() == [0, 0.25, 0.25, 0.5]
    assert empirical_pi(torch.tensor([1]), max_length=3).tolist() == [0, 1, 0, 0]


def test_pi0_is_flat_below_the_mode_and_floored_above():
    """Counts 1 0 4 2 0 2 over 9: mode 3. Below it 4/9; above it 2/9, the floor 1e-5, 2/9; then renormalised."""
    pi0 = training_pi0(empirical_pi(torch.tensor([1, 3, 3, 3, 3, 4, 4, 6, 6])))
    raw = torch.tensor([0, 4 / 9, 4 / 9, 4 / 9, 2 / 9, 1e-5, 2 / 9], dtype=torch.float64)
    torch.testing.assert_close(pi0, raw / raw.sum(), rtol=1e-12, atol=0)


def test_a_sentence_beyond_max_length_is_refused():
    with pytest.raises(ValueError, match="5 words is longer than max_length = 4"):
        empirical_pi(torch.tensor([5]), max_length=4)


def test_strata_have_their_share_of_the_draws():
    """n P(i) times, rounded up or down; over many draws n P(i) times on average, to within 4 standard errors; in no order."""
    cdf = torch.tensor([0.0, 0.13, 0.13, 0.5, 1.0], dtype=torch.float64)
    share_i = cdf.diff(prepend=torch.zeros(1, dtype=torch.float64))
    draws = [strata_from_cdf(cdf, 10, rng(seed)) for seed in range(400)]
    count_Ri = torch.stack([torch.bincount(draw, minlength=5) for draw in draws])
    assert ((count_Ri - 10 * share_i).abs() < 1).all()
    assert float((count_Ri.double().mean(0) - 10 * share_i).abs().max()) < 4 * 0.5 / 400**0.5
    assert any((draw.diff() < 0).any() for draw in draws)
