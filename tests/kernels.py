"""Kernels of the sampler against enumeration: a small problem, its exact distribution, and what a kernel has to fulfil."""

import itertools

import torch
from harness import random_pi, rng, sentence_numbers, tiny_vocab

from trflm.field.trf import TRF
from trflm.lms.proposals.lstm import LSTMProposal, LSTMProposalConfig
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.sampling.chains import Chains, Target
from trflm.sampling.exact import Exact, all_sentences

V = 3
TINY = CNNConfig(embedding=4, projection=4, bank_width=3, bank_filters=4, stack_layers=2, stack_filters=4, init=0.8)


def problem(max_length: int) -> tuple[Target, LSTMProposal]:
    """A random field, a zeta that is wrong on purpose (any zeta defines a target), and a proposal far from it."""
    trf = TRF(tiny_vocab(V), CNN(TINY, V, rng(2)).double(), random_pi(max_length, seed=1))
    trf.zeta.add_(torch.linspace(0, 0.7, max_length + 1, dtype=torch.float64))
    proposal = LSTMProposal(LSTMProposalConfig(units=5, init=1.2), V, torch.tensor([0, 1, 1]), rng(3)).double()
    return Target(trf, random_pi(max_length, seed=2)), proposal


def exact_p(target: Target) -> torch.Tensor:
    """[S] the target, normalised over every sentence. phi comes from the plain potential, not from the scoring path."""
    with torch.no_grad():
        exact = Exact.of(target.trf.potential, V, target.max_length)
    return (exact.phi_S + (target.log_pi0 - target.trf.zeta)[exact.batch.lengths_B]).softmax(0)


def check_balance(flow_SS: torch.Tensor, p_S: torch.Tensor) -> None:
    """`flow_SS[x, y]`, x != y, is the probability of going from x to y. Detailed balance and invariance to 1e-10."""
    flow_SS = flow_SS.clone().fill_diagonal_(0)
    assert float(flow_SS.sum(1).max()) <= 1 + 1e-12
    assert int((flow_SS > 0).sum()) > len(p_S)
    through = p_S[:, None] * flow_SS
    assert float((through - through.t()).abs().max()) < 1e-10
    matrix = flow_SS + torch.diag(1 - flow_SS.sum(1))
    assert float((p_S @ matrix - p_S).abs().max()) < 1e-10


def words_of(span: int) -> torch.Tensor:
    return torch.tensor(list(itertools.product(range(V), repeat=span)))


def histogram(target: Target, kernel, n_chains: int, iterations: int) -> torch.Tensor:
    everything = all_sentences(V, target.max_length)
    start = everything.select(torch.arange(n_chains) % len(everything))
    chains = Chains.at(start, target)
    counts = torch.zeros(len(everything), dtype=torch.float64)
    source = rng(11)
    for iteration in range(iterations):
        chains = kernel(source, chains)
        if iteration >= 20:
            counts += torch.bincount(sentence_numbers(chains.batch, V), minlength=len(everything))
    torch.testing.assert_close(chains.log_p_C, target.log_density(chains.batch))
    return counts / counts.sum()


def total_variation(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().sum()) / 2
