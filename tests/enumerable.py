"""Random fields on three words, rough enough that estimates scatter, whose sums are known by enumeration."""

import torch
from harness import random_batch, random_pi, rng, tiny_vocab
from torch import Tensor, nn

from trflm.field.trf import TRF
from trflm.lms.ngram import KneserNeyConfig, kneser_ney
from trflm.lms.proposals.lstm import LSTMProposal, LSTMProposalConfig
from trflm.potentials.blstm import BLSTM, BLSTMConfig
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.potentials.cnn_blstm import CNNBLSTMConfig, cnn_blstm
from trflm.potentials.mixed import Mixed
from trflm.potentials.protocol import Potential
from trflm.potentials.tilted import Tilted
from trflm.sampling.estimator import Problem
from trflm.sampling.exact import Exact
from trflm.text import Batch

V, LONGEST = 3, 5
CNN_SIZES = {
    "embedding": 4,
    "projection": 4,
    "bank_width": 2,
    "bank_filters": 4,
    "stack_layers": 1,
    "stack_filters": 4,
    "init": 1.0,
}


class Bigrams(nn.Module):
    """phi = sum_i weight[x_i, x_{i+1}]: Z_l is a product of matrices, for any number of words and any length."""

    def __init__(self, weight_VV: Tensor) -> None:
        super().__init__()
        self.weight_VV = nn.Parameter(weight_VV.double())

    def contributions(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        return torch.where(batch.remaining_N > 0, self.weight_VV[batch.ids_N, batch.ids_N.roll(-1)], 0.0)

    def forward(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        return batch.sum_words(self.contributions(batch))

    def score(self, batch: Batch) -> Tensor:
        return self(batch)

    def forget(self) -> None:
        """Nothing is kept."""

    def log_Z(self, longest: int) -> Tensor:
        """[m+1] exactly, by dynamic programming over the last word."""
        log_sum_V, found = torch.zeros(len(self.weight_VV), dtype=torch.float64), [float("-inf")]
        for _ in range(longest):
            found.append(float(torch.logsumexp(log_sum_V, 0)))
            log_sum_V = torch.logsumexp(log_sum_V[:, None] + self.weight_VV.detach(), 0)
        return torch.tensor(found, dtype=torch.float64)


def rough_cnn() -> CNN:
    """Its first position is known after three words."""
    return CNN(CNNConfig(**CNN_SIZES), V, rng(2)).double()


def rough_blstm() -> BLSTM:
    return BLSTM(BLSTMConfig(embedding=4, units=5, init=0.7), V, rng(3)).double()


def reference():
    return kneser_ney(random_batch(V, [1, 2, 3, 4, 5, 3, 2, 4] * 20, seed=4), tiny_vocab(V), KneserNeyConfig(order=2))


POTENTIALS = {
    "cnn": rough_cnn,
    "blstm": rough_blstm,
    "cnn-blstm": lambda: cnn_blstm(CNNBLSTMConfig(**CNN_SIZES, units=4), V, rng(5)).double(),
    "bigrams": lambda: Bigrams(torch.randn(V, V, generator=rng(6))),
    "mixed": lambda: Mixed([rough_cnn(), rough_blstm()]),
    "cnn on a reference": lambda: Tilted(rough_cnn(), reference()),
    "blstm on a reference": lambda: Tilted(rough_blstm(), reference()),
}


def field(potential: Potential) -> tuple[TRF, Exact]:
    trf = TRF(tiny_vocab(V), potential, random_pi(LONGEST))
    with torch.no_grad():
        return trf, Exact.of(potential, V, LONGEST)


def lstm_proposal() -> LSTMProposal:
    return LSTMProposal(LSTMProposalConfig(units=5, init=1.2), V, torch.tensor([0, 1, 1]), rng(3)).double()


def problem(name: str) -> tuple[Problem, Exact]:
    trf, exact = field(POTENTIALS[name]())
    return Problem(trf, lstm_proposal()), exact


def exact_samples(exact: Exact, length: int, n: int, source: torch.Generator) -> Batch:
    """n independent samples of p_l."""
    at = (exact.batch.lengths_B == length).nonzero().squeeze(1)
    p: Tensor = exact.phi_S[at].softmax(0)
    return exact.batch.select(at[torch.multinomial(p, n, True, generator=source)])
