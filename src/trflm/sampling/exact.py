"""The truth, by enumeration. With 3 words and lengths up to 4 there are 120 sentences: sum over them all.

Everything stochastic in this project (samplers, learners, bounds, the fast engine) is tested against this file.

Shapes: S sentences in all, m the greatest length, V words.
"""

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from trflm.potentials.protocol import Potential
from trflm.text import Batch, pack

MOST_SENTENCES = 2_000_000


def all_sentences(n_words: int, max_length: int) -> Batch:
    """Every sentence of 1..m words, by length, then in the order of counting: S = V + V^2 + ... + V^m."""
    total = sum(n_words**length for length in range(1, max_length + 1))
    if total > MOST_SENTENCES:
        raise ValueError(f"{n_words} words up to length {max_length} make {total:,} sentences; too many to enumerate")
    return pack([all_of_length(n_words, length) for length in range(1, max_length + 1)])


def all_of_length(n_words: int, length: int) -> Batch:
    """Every sentence of so many words, in the order of counting."""
    ids = list(itertools.product(range(n_words), repeat=length))
    return Batch(torch.tensor(ids).flatten(), torch.full((len(ids),), length))


@dataclass(frozen=True)
class Exact:
    """A random field on every sentence there is."""

    batch: Batch
    phi_S: Tensor  # differentiable if made so
    log_Z: Tensor  # [m+1], log Z_l for l = 1..m; entry 0 is -inf

    @classmethod
    def of(cls, potential: Potential, n_words: int, max_length: int) -> "Exact":
        """Enumerate; gradients flow through phi_S and log_Z unless switched off outside."""
        batch = all_sentences(n_words, max_length)
        phi_S = potential(batch).double()
        parts = phi_S.split([n_words**length for length in range(1, max_length + 1)])
        log_Z = torch.stack([phi_S.new_tensor(float("-inf")), *(torch.logsumexp(part, 0) for part in parts)])
        return cls(batch, phi_S, log_Z)

    @property
    def zeta(self) -> Tensor:
        """[m+1] log Z_l - log Z_1, entry 0 set to 0 as in TRF."""
        return torch.cat([self.log_Z.new_zeros(1), self.log_Z[1:] - self.log_Z[1]])

    def log_prob(self, pi: Tensor) -> Tensor:
        """[S] log pi_l + phi(x) - log Z_l."""
        lengths_S = self.batch.lengths_B
        return pi.log()[lengths_S] + self.phi_S - self.log_Z[lengths_S]

    def word_marginals(self, pi: Tensor, n_words: int) -> Tensor:
        """[m, V] expected number of times word v stands at position i: sum_x p(l, x) 1(x_i = v)."""
        p_S = self.log_prob(pi).exp()
        m = int(self.batch.lengths_B.max())
        cell_N = self.batch.position_N * n_words + self.batch.ids_N
        return p_S.new_zeros(m * n_words).index_add(0, cell_N, p_S[self.batch.sentence_N]).view(m, n_words)


def expected_gradient(potential: Potential, n_words: int, pi: Tensor) -> list[Tensor]:
    """sum_l pi_l E_{p_l}[d phi / d theta], the second term of eq:obj1, as the gradient of sum_l pi_l log Z_l."""
    exact = Exact.of(potential, n_words, len(pi) - 1)
    return list(torch.autograd.grad((pi[1:] * exact.log_Z[1:]).sum(), list(potential.parameters())))


def log_likelihood(potential: Potential, n_words: int, data_S: Tensor, pi: Tensor) -> Tensor:
    """sum_x data(x) log p(l, x): the exact objective, differentiable; `data_S` is a distribution over all_sentences."""
    log_p_S = Exact.of(potential, n_words, len(pi) - 1).log_prob(pi)
    return (data_S * log_p_S.masked_fill(data_S == 0, 0.0)).sum()
