"""Step II of TransMS, the Markov move: block Gibbs by multiple-trial Metropolis independence sampling (MTMIS).

For the blocks of s words in order, the last one shorter: draw M trials u_(k) ~ g(. | x_<i), with weights

    w(u) = p(l, {x_<i, u, x_>=i+s}) / g(u | x_<i),        W = sum_k w(u_(k)),

choose u among them with probability proportional to w, and accept it with probability min{1, W / (W - w(u) + w(x))},
where w(x) is the weight of the words that stand there now.

Shapes: C chains, M trials, s words a block.
"""

import math

import torch
from torch import Tensor

from trflm.lms.proposals.protocol import DRAW, Proposal, draw
from trflm.sampling.chains import Chains, Density, MoveInfo, replace
from trflm.text import Batch


def mtmis_log_acceptance(log_w_CM: Tensor, log_w_now_C: Tensor) -> Tensor:
    """[C, M] log of the acceptance probability of each trial if it is the one chosen.

    log W - log(W - w(u) + w(x)): the denominator is the sum over the other trials and the present words, computed so,
    never by subtracting.
    """
    M = log_w_CM.shape[1]
    total_C1 = torch.logsumexp(log_w_CM, 1, keepdim=True)
    itself = torch.eye(M, dtype=torch.bool, device=log_w_CM.device)
    others_CMM = log_w_CM[:, None, :].masked_fill(itself, -math.inf)
    now_CM1 = log_w_now_C[:, None, None].expand(-1, M, 1)
    return (total_C1 - torch.logsumexp(torch.cat([others_CMM, now_CM1], 2), 2)).clamp(max=0)


def block_gibbs(
    rng: torch.Generator, chains: Chains, target: Density, proposal: Proposal, block: int, trials: int
) -> tuple[Chains, MoveInfo]:
    """One sweep over the blocks of every chain; each block is a proposal."""
    tried = accepted = 0
    batch, log_p_C = chains.batch, chains.log_density(target)
    state = proposal.start(len(batch))
    active = torch.arange(len(batch), device=log_p_C.device)  # chains that reach the block
    for first in range(0, int(batch.lengths_B.max()), block):
        # 1. The chains that have words here, and those words.
        reaching = (batch.lengths_B[active] > first).nonzero().squeeze(1)
        active, state = active[reaching], state.select(reaching)
        now, log_p_now_C = batch.select(active), log_p_C[active]
        remaining_C = now.lengths_B - first
        span_C = remaining_C.clamp(max=block)

        # 2. Draw M trials and score the words there are, as trial M, in one call.
        given_CMs = torch.full((len(active), trials + 1, block), DRAW, device=active.device)
        given_CMs[:, trials] = words_at(now, first, block)
        span = proposal.propose(rng, state, given_CMs, span_C, remaining_C)
        trial = with_block(now, first, span.words_CMs[:, :trials])
        log_p_CM = target.log_density(trial).view(-1, trials)
        log_w_CM = log_p_CM - span.log_q_CM[:, :trials]
        log_w_now_C = log_p_now_C - span.log_q_CM[:, trials]

        # 3. Choose one by weight, and accept it or stay.
        choice_C = draw(log_w_CM.log_softmax(1), rng)
        log_accept_C = mtmis_log_acceptance(log_w_CM, log_w_now_C).gather(1, choice_C[:, None]).squeeze(1)
        accept_C = torch.rand(len(active), generator=rng, dtype=torch.float64).to(active.device).log() < log_accept_C
        index = accept_C.nonzero().squeeze(1)
        row_C = torch.arange(len(active), device=active.device) * trials + choice_C
        moved = replace(batch, log_p_C, active[index], trial.select(row_C[index]), log_p_CM.view(-1)[row_C[index]])
        batch, log_p_C = moved.batch, moved.log_density(target)
        state = span.state_after(torch.where(accept_C, choice_C, trials))
        tried, accepted = tried + len(active), accepted + len(index)
    return Chains(batch, log_p_C), MoveInfo(tried, accepted)


def words_at(batch: Batch, first: int, block: int) -> Tensor:
    """[C, s] the words first..first+s-1 of each sentence, 0 beyond its end."""
    words_Cs = batch.ids_N.new_zeros(len(batch), block)
    place_N = batch.position_N - first
    inside = ((place_N >= 0) & (place_N < block)).nonzero().squeeze(1)
    words_Cs[batch.sentence_N[inside], place_N[inside]] = batch.ids_N[inside]
    return words_Cs


def with_block(batch: Batch, first: int, words_CMs: Tensor) -> Batch:
    """C*M sentences: each sentence M times, with the block replaced by its M trials."""
    C, M, block = words_CMs.shape
    many = batch.select(torch.arange(C, device=batch.device).repeat_interleave(M))
    place_N = many.position_N - first
    inside = ((place_N >= 0) & (place_N < block)).nonzero().squeeze(1)
    many.ids_N[inside] = words_CMs.reshape(C * M, block)[many.sentence_N[inside], place_N[inside]]
    return many
