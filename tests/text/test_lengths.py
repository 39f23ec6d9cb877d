import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trflm.text import empirical_pi, training_pi0

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
