import math

import torch
from harness import check_language_model, random_batch, random_pi, rng, tiny_vocab

from trflm.field.trf import TRF, initial_zeta
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.sampling.exact import Exact
from trflm.text.batch import SCORING_WORDS, in_parts

TINY = CNNConfig(embedding=4, projection=4, bank_width=3, bank_filters=4, stack_layers=2, stack_filters=4, init=0.7)


def tiny_trf(n_words: int = 3, max_length: int = 4) -> TRF:
    """A random field whose zeta is exact."""
    trf = TRF(tiny_vocab(n_words), CNN(TINY, n_words, rng()), random_pi(max_length))
    with torch.no_grad():
        trf.zeta.copy_(Exact.of(trf.potential, n_words, max_length).zeta)
    return trf


def test_is_a_language_model():
    check_language_model(tiny_trf(), max_length=4)


def test_log_prob_is_the_enumerated_one():
    trf = tiny_trf()
    with torch.no_grad():
        exact = Exact.of(trf.potential, 3, 4)
    torch.testing.assert_close(trf.log_prob(exact.batch), exact.log_prob(trf.pi), rtol=1e-6, atol=1e-6)
    assert math.isclose(trf.log_Z1(), float(exact.log_Z[1]), abs_tol=1e-6)


def test_log_Z1_is_kept_until_a_parameter_changes(monkeypatch):
    trf = tiny_trf()
    passes = []
    phi = trf.phi
    monkeypatch.setattr(trf, "phi", lambda batch: passes.append(len(batch)) or phi(batch))
    before = trf.log_Z1()
    assert trf.log_Z1() == before
    assert len(passes) == 1

    optimiser = torch.optim.Adam(trf.potential.parameters(), lr=0.1)
    trf.potential(random_batch(3, [2, 3])).sum().backward()
    optimiser.step()
    after = trf.log_Z1()
    assert after != before
    assert len(passes) == 2
    with torch.no_grad():
        assert math.isclose(after, float(Exact.of(trf.potential, 3, 1).log_Z[1]), abs_tol=1e-6)


def test_initial_zeta_is_exact_for_zero_potential():
    torch.testing.assert_close(initial_zeta(4, 10), torch.tensor([0.0, 0, 1, 2, 3], dtype=torch.float64) * math.log(10))


def test_long_sentences_extrapolate_zeta_linearly_and_floor_pi():
    trf = tiny_trf(max_length=4)
    trf.zeta.copy_(torch.tensor([0.0, 0, 2, 4, 6]))
    norm = trf.log_norm(torch.tensor([5, 7]))
    expected = [math.log(1e-5) - trf.log_Z1() - zeta for zeta in (8.0, 12.0)]
    torch.testing.assert_close(norm, torch.tensor(expected, dtype=torch.float64))
    assert trf.unseen(torch.tensor([4, 5])).tolist() == [False, True]


def test_a_length_without_training_sentences_keeps_a_finite_score():
    trf = tiny_trf(max_length=3)
    trf.pi.copy_(torch.tensor([0.0, 0.5, 0.0, 0.5]))
    assert math.isfinite(float(trf.log_prob(["w1 w2"])[0]))
    assert trf.unseen(torch.tensor([1, 2, 3])).tolist() == [False, True, False]


def test_scoring_in_parts_changes_nothing():
    trf = tiny_trf()
    lengths = [3] * (SCORING_WORDS // 2)
    batch = random_batch(3, lengths)
    assert len(list(in_parts(batch))) > 1
    assert sum(part.n_words for part in in_parts(batch)) == batch.n_words
    with torch.no_grad():
        torch.testing.assert_close(trf.phi(batch), trf.potential(batch).double(), rtol=1e-5, atol=1e-6)


def test_one_string_is_one_sentence():
    assert torch.equal(tiny_trf().log_prob("w1 w2"), tiny_trf().log_prob(["w1 w2"]))
