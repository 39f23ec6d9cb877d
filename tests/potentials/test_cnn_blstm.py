import pytest
import torch
from harness import check_expected_gradient, check_potential, random_batch, random_pi, rng

from trflm.potentials.blstm import BLSTM
from trflm.potentials.cnn_blstm import CNNBLSTMConfig, cnn_blstm
from trflm.text import Batch

CNN_SIZES = {"projection": 4, "bank_width": 3, "bank_filters": 3, "stack_layers": 2, "stack_filters": 5, "init": 0.5}
SHAPES = [CNNBLSTMConfig(embedding=6, units=6, **CNN_SIZES), CNNBLSTMConfig(embedding=4, units=3, layers=2, **CNN_SIZES)]


def small(config: CNNBLSTMConfig, n_words: int) -> BLSTM:
    return cnn_blstm(config, n_words, rng()).double()


@pytest.mark.parametrize("config", SHAPES)
def test_is_a_potential(config):
    check_potential(small(config, 9), n_words=9, longest=14)


@pytest.mark.parametrize("config", SHAPES)
def test_expected_gradient(config):
    check_expected_gradient(small(config, 3), 3, random_pi(3))


def test_similar_sentences_score_the_same_in_float32():
    potential = cnn_blstm(CNNBLSTMConfig(), 50, rng())
    ids_SL = random_batch(50, [20]).ids_N.repeat(40, 1)
    ids_SL[torch.arange(40), torch.arange(40) % 20] = torch.arange(40)
    batch = Batch(ids_SL.flatten(), torch.full((40,), 20))
    torch.testing.assert_close(potential.score(batch), potential(batch).detach(), rtol=0, atol=1e-5)


def test_a_state_depends_on_the_words_beyond_it_through_the_window_of_the_cnn():
    """Word 2 is multiplied with the state after word 1, which sees 4 words more: bank, pool and two layers, one each."""
    potential = small(SHAPES[0], 9)
    with torch.no_grad():
        for parameter in potential.backward_stack.parameters():
            parameter.zero_()  # its states are 0
        batch = random_batch(9, [12])
        before = potential.contributions(batch)
        reached = set()
        for place in range(12):
            other = batch.ids_N.clone()
            other[place] = (other[place] + 1) % 9
            after = potential.contributions(Batch(other, batch.lengths_B))
            if abs(float(after[2] - before[2])) > 1e-14:
                reached.add(place)
    assert reached == set(range(1 + 4 + 1))


@pytest.mark.parametrize("wrong", [{"units": 0}, {"bank_width": 0}])
def test_impossible_dimensions_are_refused(wrong):
    with pytest.raises(ValueError, match="must be at least 1"):
        CNNBLSTMConfig(**wrong)
