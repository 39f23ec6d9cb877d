"""The trans-dimensional random field: p(l, x) = pi_l * exp(phi(x)) / Z_l  (eq:model_l, eq:model_all, eq:model_all_zeta).

    log p(l, x) = log pi_l + phi(x; theta) - log Z_1 - zeta_l,      zeta_l ~ log Z_l - log Z_1,  zeta_1 = 0

log Z_1 is exact, one pass over the V one-word sentences. Lengths the model was not trained on still get a finite score:
zeta goes on linearly beyond m, and pi is floored at 1e-5 (then the scores no longer sum to one).

Shapes: B sentences, N words in all, V words in the vocabulary, m the longest sentence of training.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from trflm.language_model import Explanation
from trflm.potentials.protocol import Potential
from trflm.potentials.tilted import Tilted
from trflm.speed.devices import device_of
from trflm.text import Batch, Vocab
from trflm.text.batch import in_parts
from trflm.text.lengths import PI_FLOOR


class TRF(nn.Module):
    """A potential with a length distribution and normalising constants. Scoring needs no gradient and no softmax."""

    pi: Tensor  # [m+1], pi[l] for l = 1..m, float64
    zeta: Tensor  # [m+1], zeta[1] == 0, zeta[0] unused, float64

    def __init__(self, vocab: Vocab, potential: Potential, pi: Tensor) -> None:
        super().__init__()
        self.vocab = vocab
        self.potential = potential
        self.register_buffer("pi", pi.double())
        self.register_buffer("zeta", initial_zeta(len(pi) - 1, len(vocab)))
        self._log_Z1: tuple[object, float] | None = None  # (versions of parameters and buffers, value)

    @property
    def max_length(self) -> int:
        """m."""
        return len(self.pi) - 1

    def log_Z1(self) -> float:
        """log Z_1 = log sum_v exp(phi(v)), exact; kept until a parameter changes.

        Changes are seen by autograd's version counters, so change parameters in place (optimisers and load_state_dict
        do), not through `.data`.
        """
        versions = self._versions()
        if self._log_Z1 is None or self._log_Z1[0] != versions:
            words_V = torch.arange(len(self.vocab), device=self.zeta.device)
            phi_V = self.phi(Batch(words_V, torch.ones_like(words_V)))
            self._log_Z1 = (versions, float(torch.logsumexp(phi_V, 0)))
        return self._log_Z1[1]

    def remember_log_Z1(self, value: float) -> None:
        """Take log Z_1 of the parameters as they are from a file instead of computing it."""
        self._log_Z1 = (self._versions(), value)

    def _versions(self) -> object:
        tensors = (*self.potential.parameters(), *self.potential.buffers())
        return tuple((tensor.data_ptr(), tensor._version) for tensor in tensors)

    def phi(self, batch: Batch) -> Tensor:
        """[B] the potential for scoring: float64, no gradient, in parts that bound the memory."""
        with torch.no_grad():
            parts = [self.potential.score(self._there(part)) for part in in_parts(batch)]
            return torch.cat([phi_B.to(self.zeta.device).double() for phi_B in parts])

    def _there(self, part: Batch) -> Batch:
        """Where the potential is; one with a reference moves what has to be moved by itself."""
        return part if isinstance(self.potential, Tilted) else part.to(device_of(self.potential))

    def log_prob(self, sentences: Batch | Sequence[str]) -> Tensor:
        """[B] log p(l, x), float64."""
        batch = self.vocab.batch(sentences).to(self.zeta.device)
        return self.phi(batch) + self.log_norm(batch.lengths_B)

    def explain(self, sentences: Batch | Sequence[str]) -> Explanation:
        """What each position adds to phi, and log pi_l - log Z_l."""
        batch = self.vocab.batch(sentences).to(self.zeta.device)
        with torch.no_grad():
            parts = [self.potential.contributions(self._there(part)) for part in in_parts(batch)]
            word_N = torch.cat([of_part.to(self.zeta.device).double() for of_part in parts])
        return Explanation(batch, word_N, self.log_norm(batch.lengths_B))

    def log_norm(self, lengths_B: Tensor) -> Tensor:
        """[B] log pi_l - log Z_1 - zeta_l: what turns phi into log p."""
        known_B = lengths_B.clamp(max=self.max_length)
        pi_B = torch.where(lengths_B <= self.max_length, self.pi[known_B], 0.0).clamp(min=PI_FLOOR)
        zeta_B = self.zeta[known_B] + self._slope() * (lengths_B - known_B)
        return pi_B.log() - self.log_Z1() - zeta_B

    def unseen(self, lengths_B: Tensor) -> Tensor:
        """[B] which lengths had no training sentence, so that their score rests on the floor of pi."""
        known_B = lengths_B.clamp(max=self.max_length)
        return (lengths_B > self.max_length) | (self.pi[known_B] == 0)

    def n_parameters(self) -> int:
        return sum(p.numel() for p in self.potential.parameters())

    def _slope(self) -> float:
        """How much zeta grows a word, from the upper half of the known lengths."""
        m = self.max_length
        if m == 1:
            return math.log(len(self.vocab))
        half = max(m // 2, 1)
        return float(self.zeta[m] - self.zeta[half]) / (m - half)


def initial_zeta(max_length: int, n_words: int) -> Tensor:
    """zeta_l = (l - 1) log V: exact for phi = 0. Entry 0 is unused and 0."""
    return torch.arange(-1, max_length, dtype=torch.float64).clamp(min=0) * math.log(n_words)
