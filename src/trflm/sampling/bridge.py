"""Distributions between the proposal and the field, and the Markov move for each of them.

    p_b(x) ~ q(x)^(1-b) exp(b phi(x)),     b from 0 (the proposal) to 1 (the field), all sentences of one length

The move is that of `gibbs`: multiple-trial Metropolis for one block of words after the other, trials from g(u | x_<i), now with
weights p_b(x_<i, u, x_>=i+s) / g(u | x_<i). Each block's step is reversible, so a sweep from left to right followed backwards
is a sweep from right to left: `REVERSED`.

Shapes: C chains, M trials, s words a block, L words a sentence.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trflm.lms.proposals.protocol import DRAW, draw
from trflm.sampling.estimator import Problem, as_rows, same_length
from trflm.sampling.gibbs import mtmis_log_acceptance
from trflm.text import Batch

FORWARD, REVERSED = 1, -1


@dataclass(frozen=True)
class Points:
    """Where the chains are."""

    words_CL: Tensor
    phi_C: Tensor
    log_q_C: Tensor

    @classmethod
    def at(cls, batch: Batch, problem: Problem) -> "Points":
        return cls(as_rows(batch), problem.trf.phi(batch), problem.log_q(batch))

    @property
    def score_C(self) -> Tensor:
        """phi - log q: the derivative of log p_b by b."""
        return self.phi_C - self.log_q_C


@dataclass(frozen=True)
class SweepInfo:
    tried: int  # blocks
    accepted: int


def sweep(
    rng: torch.Generator, points: Points, problem: Problem, b: float, block: int, trials: int, direction: int = FORWARD
) -> tuple[Points, SweepInfo]:
    """One step of every block, from left to right or from right to left; leaves p_b as it is."""
    accepted, firsts = 0, range(0, points.words_CL.shape[1], block)[::direction]
    for first in firsts:
        points, n = step_block(rng, points, problem, b, first, block, trials)
        accepted += n
    return points, SweepInfo(len(firsts) * len(points.words_CL), accepted)


def step_block(
    rng: torch.Generator, points: Points, problem: Problem, b: float, first: int, block: int, trials: int
) -> tuple[Points, int]:
    """A step of the words first .. first+s-1 of every chain, and how many chains moved."""
    C, L = points.words_CL.shape
    M, end, proposal, device = trials, min(first + block, L), problem.proposal, points.words_CL.device
    remaining_C = torch.full((C,), L - first, device=device)
    # 1. M trials from g, and the words that stand there now as trial M.
    prefix_CL = points.words_CL[:, :first]
    state = proposal.after(same_length(prefix_CL), remaining_C + first) if first else proposal.start(C)
    given_CMs = torch.full((C, M + 1, end - first), DRAW, device=device)
    given_CMs[:, M] = points.words_CL[:, first:end]
    span = proposal.propose(rng, state, given_CMs, torch.full_like(remaining_C, end - first), remaining_C)
    log_g_CM, log_g_now_C = span.log_q_CM[:, :M], span.log_q_CM[:, M]

    # 2. phi and q of the whole sentences. What q says of the words before the block is the same for all.
    words_CML = points.words_CL[:, None].repeat(1, M, 1)
    words_CML[:, :, first:end] = span.words_CMs[:, :M]
    phi_CM = problem.trf.phi(same_length(words_CML.view(C * M, L))).view(C, M)
    log_q_on_CM = log_g_CM  # of the block and the words after it
    if end < L:
        everything_CMs = torch.cat([words_CML, points.words_CL[:, None]], 1)[:, :, first:]
        log_q_on_CM = proposal.propose(rng, state, everything_CMs, remaining_C, remaining_C).log_q_CM
        log_q_before_C, log_q_on_CM = points.log_q_C - log_q_on_CM[:, M], log_q_on_CM[:, :M]
    else:
        log_q_before_C = points.log_q_C - log_g_now_C
    log_q_CM = log_q_before_C[:, None] + log_q_on_CM

    # 3. Choose one by weight, and accept it or stay.
    log_w_CM = (1 - b) * log_q_CM + b * phi_CM - log_g_CM
    log_w_now_C = (1 - b) * points.log_q_C + b * points.phi_C - log_g_now_C
    choice_C1 = draw(log_w_CM.log_softmax(1), rng)[:, None]
    log_accept_C = mtmis_log_acceptance(log_w_CM, log_w_now_C).gather(1, choice_C1).squeeze(1)
    accept_C = torch.rand(C, generator=rng, dtype=torch.float64).to(device).log() < log_accept_C

    def moved(trial_CM: Tensor, now_C: Tensor) -> Tensor:
        return torch.where(accept_C, trial_CM.gather(1, choice_C1).squeeze(1), now_C)

    chosen_CL = words_CML[torch.arange(C, device=device), choice_C1.squeeze(1)]
    words_CL = torch.where(accept_C[:, None], chosen_CL, points.words_CL)
    return Points(words_CL, moved(phi_CM, points.phi_C), moved(log_q_CM, points.log_q_C)), int(accept_C.sum())
