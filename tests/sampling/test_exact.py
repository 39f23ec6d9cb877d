import math

import pytest
import torch
from harness import check_expected_gradient, random_pi, rng, tiny_vocab
from torch import nn

from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.sampling.exact import Exact, all_sentences, log_likelihood
from trflm.text import Batch


class UnigramPotential(nn.Module):
    """phi(x) = sum_i weight[x_i]: log Z_l = l log sum_v exp(weight_v), everything known in closed form."""

    def __init__(self, weight_V: torch.Tensor) -> None:
        super().__init__()
        self.weight_V = nn.Parameter(weight_V.double())

    def contributions(self, batch: Batch, rng: torch.Generator | None = None) -> torch.Tensor:
        return self.weight_V[batch.ids_N]

    def forget(self) -> None:
        pass

    def score(self, batch: Batch) -> torch.Tensor:
        return self(batch).detach()

    def forward(self, batch: Batch, rng: torch.Generator | None = None) -> torch.Tensor:
        return batch.sum_words(self.contributions(batch))


def test_there_are_120_sentences_of_3_words_up_to_length_4():
    batch = all_sentences(3, 4)
    assert len(batch) == 120
    assert len(set(tiny_vocab(3).sentences(batch))) == 120


def test_against_closed_form():
    weight_V = torch.tensor([0.3, -1.2, 0.8], dtype=torch.float64)
    pi = random_pi(4)
    with torch.no_grad():
        exact = Exact.of(UnigramPotential(weight_V), 3, 4)
    one = float(torch.logsumexp(weight_V, 0))
    torch.testing.assert_close(exact.log_Z[1:], one * torch.arange(1.0, 5.0, dtype=torch.float64))
    torch.testing.assert_close(exact.zeta, one * torch.tensor([0.0, 0, 1, 2, 3], dtype=torch.float64))
    assert math.isclose(float(exact.log_prob(pi).exp().sum()), 1.0, rel_tol=1e-12)
    reaches_i = pi[1:].flip(0).cumsum(0).flip(0)  # P(length >= i)
    torch.testing.assert_close(exact.word_marginals(pi, 3), reaches_i[:, None] * (weight_V - one).exp())


def test_expected_gradient():
    cnn = CNN(CNNConfig(3, 3, 3, 2, 2, 2, 3, 2, init=0.7), 3, rng()).double()
    check_expected_gradient(cnn, 3, random_pi(3))


def test_log_likelihood_is_greatest_at_the_truth():
    potential = UnigramPotential(torch.tensor([0.3, -1.2, 0.8]))
    pi = random_pi(3)
    with torch.no_grad():
        truth = Exact.of(potential, 3, 3).log_prob(pi).exp()
    best = log_likelihood(potential, 3, truth, pi)
    (gradient,) = torch.autograd.grad(best, [potential.weight_V])
    assert float(gradient.abs().max()) < 1e-12
    with torch.no_grad():
        potential.weight_V[0] += 0.1
        worse = log_likelihood(potential, 3, truth, pi)
    assert float(worse) < float(best.detach())


def test_refuses_what_cannot_be_enumerated():
    with pytest.raises(ValueError, match="too many to enumerate"):
        all_sentences(1000, 4)
