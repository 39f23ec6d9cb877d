"""A field that tilts an n-gram model: one more potential, scored, sampled and started like any other."""

import pytest
import torch
from harness import check_expected_gradient, check_language_model, check_potential, random_batch, random_pi, rng, tiny_vocab

from trflm.field.engine import Engine
from trflm.field.trf import TRF
from trflm.lms.ngram import KneserNeyConfig, NGram, kneser_ney
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.potentials.tilted import Tilted, log_lengths
from trflm.sampling.exact import Exact, all_sentences

pytestmark = pytest.mark.filterwarnings("ignore:the .-grams of this text")

V = 3
TINY = CNNConfig(embedding=4, projection=4, bank_width=3, bank_filters=4, stack_layers=2, stack_filters=4, init=0.5)


def ngram(order: int) -> NGram:
    text = random_batch(V, [1, 2, 3, 4, 5, 3, 2, 4] * 20, seed=4)
    return kneser_ney(text, tiny_vocab(V), KneserNeyConfig(order=order))


def tilted(order: int = 3) -> Tilted:
    return Tilted(CNN(TINY, V, rng(1)).double(), ngram(order))


def test_is_a_potential():
    check_potential(tilted(), V, 5)
    check_expected_gradient(tilted(), V, random_pi(3))


def test_phi_is_the_sum_of_both():
    batch = random_batch(V, [1, 2, 5])
    potential = tilted()
    expected = potential.potential(batch) + potential.reference.log_prob(batch)
    torch.testing.assert_close(potential(batch), expected)


def test_the_factor_is_of_phi_alone():
    """In training, in words, in scoring and in log Z_1 alike; it is saved, and a model without one had 1."""
    batch, potential = random_batch(V, [1, 2, 5]), tilted()
    trf = TRF(tiny_vocab(V), potential, random_pi(5))
    before = trf.log_Z1()
    with torch.no_grad():
        potential.factor.fill_(0.6)
        expected = 0.6 * potential.potential(batch) + potential.reference.log_prob(batch)
        torch.testing.assert_close(potential(batch), expected)
        torch.testing.assert_close(batch.sum_words(potential.contributions(batch)), expected)
        torch.testing.assert_close(potential.score(batch), expected)
    torch.testing.assert_close(Engine([trf]).log_prob(batch), trf.log_prob(batch))
    assert trf.log_Z1() != before
    state = potential.state_dict()
    again = tilted()
    again.load_state_dict(state)
    assert float(again.factor) == 0.6
    del state["factor"]
    again.load_state_dict(state)
    assert float(again.factor) == 1.0


def test_the_share_is_of_the_reference_alone():
    """As the factor is of phi."""
    batch, potential = random_batch(V, [1, 2, 5]), tilted()
    trf = TRF(tiny_vocab(V), potential, random_pi(5))
    before = trf.log_Z1()
    with torch.no_grad():
        potential.share.fill_(0.3)
        expected = potential.potential(batch) + 0.3 * potential.reference.log_prob(batch)
        torch.testing.assert_close(potential(batch), expected)
        torch.testing.assert_close(batch.sum_words(potential.contributions(batch)), expected)
        torch.testing.assert_close(potential.score(batch), expected)
    torch.testing.assert_close(Engine([trf]).log_prob(batch), trf.log_prob(batch))
    assert trf.log_Z1() != before
    state = potential.state_dict()
    again = tilted()
    again.load_state_dict(state)
    assert float(again.share) == 0.3
    del state["share"]
    again.load_state_dict(state)
    assert float(again.share) == 1.0


def test_the_end_of_a_sentence_is_explained_by_its_last_word():
    batch, potential = random_batch(V, [1, 2, 5]), tilted()
    explanation = potential.reference.explain(batch)
    reference_N = potential.contributions(batch) - potential.potential.contributions(batch)
    last_B = batch.lengths_B.cumsum(0) - 1
    torch.testing.assert_close(reference_N[last_B], (explanation.word_N[last_B] + explanation.rest_B).to(reference_N))
    inside_N = batch.remaining_N > 0
    torch.testing.assert_close(reference_N[inside_N], explanation.word_N[inside_N].to(reference_N))


def test_a_field_with_a_reference_is_a_language_model():
    trf = TRF(tiny_vocab(V), tilted(), random_pi(3))
    with torch.no_grad():
        trf.zeta.copy_(Exact.of(trf.potential, V, 3).zeta)
    check_language_model(trf, 3)


@pytest.mark.parametrize("order", [1, 3])
def test_zeta_starts_at_the_lengths_of_the_reference(order: int):
    """With phi = 0, Z_l is the reference's share of length l: 20,000 draws know a log share of 0.1 or more to about 0.02."""
    reference = ngram(order)
    batch = all_sentences(V, 4)
    log_p = reference.log_prob(batch).double()
    exact = torch.stack([torch.logsumexp(log_p[batch.lengths_B == length], 0) for length in (1, 2, 3, 4)])
    exact = exact - reference.log_not_empty()  # draws have a word at least
    drawn = log_lengths(reference.draw(20_000, rng(2)).lengths_B, 4)
    assert float((drawn[1:] - exact).abs().max()) < 0.1


def test_lengths_without_a_draw_have_a_finite_start():
    log_share = log_lengths(torch.tensor([1, 1, 2, 9]), 4)
    assert torch.isfinite(log_share).all()
    assert float(log_share[3]) == float(log_share[4]) < float(log_share[2]) < float(log_share[1])
