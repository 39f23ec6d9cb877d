"""Step II of TransMS, the Markov move: block Gibbs by multiple-trial Metropolis independence sampling (MTMIS).

For the blocks of s words in order, the last one shorter: draw M trials u_(k) ~ g(. | x_<i), with weights

    w(u) = p(l, {x_<i, u, x_>=i+s}) / g(u | x_<i),        W = sum_k w(u_(k)),

choose u among them with probability proportional to w, and accept it with probability min{1, W / (W - w(u) + w(x))},
where w(x) is the weight of the words that stand there now.

Before a trial is chosen and the coin is thrown, f after the move is expected to be

    sum_k P_k f(u_(k)) + (1 - sum_k P_k) f(x),      P_k = w(u_(k)) / W min{1, W / (W - w(u_(k)) + w(x))}

With `weigh_trials` each chain keeps these M + 1 sentences of one of its blocks, drawn at random. Most have next to no weight
and would cost as much as the others: one with P below ROULETTE stays with probability P / ROULETTE, and then weighs ROULETTE.

Shapes: C chains, M trials, s words a block.
"""

import math

import torch
from torch import Tensor

from trflm.lms.proposals.protocol import DRAW, Proposal, draw
from trflm.sampling.chains import Chains, Density, MoveInfo, Weighted, replace
from trflm.text import Batch, pack

ROULETTE = 0.1


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
    rng: torch.Generator,
    chains: Chains,
    target: Density,
    proposal: Proposal,
    block: int,
    trials: int,
    weigh_trials: bool = False,
) -> tuple[Chains, MoveInfo]:
    """One sweep over the blocks of every chain; each block is a proposal."""
    tried = accepted = 0
    batch, log_p_C = chains.batch, chains.log_density(target)
    kept: list[Weighted] = []
    kept_block_C = random_blocks(rng, batch.lengths_B, block) if weigh_trials else None
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
        log_accept_CM = mtmis_log_acceptance(log_w_CM, log_w_now_C)
        log_accept_C = log_accept_CM.gather(1, choice_C[:, None]).squeeze(1)
        accept_C = torch.rand(len(active), generator=rng, dtype=torch.float64).to(active.device).log() < log_accept_C
        index = accept_C.nonzero().squeeze(1)
        row_C = torch.arange(len(active), device=active.device) * trials + choice_C
        if kept_block_C is not None:
            keeping = (kept_block_C[active] == first // block).nonzero().squeeze(1)
            prob_CM = (log_w_CM.log_softmax(1) + log_accept_CM).exp()
            kept.append(expected_of(rng, now, trial, prob_CM, keeping))
        moved = replace(batch, log_p_C, active[index], trial.select(row_C[index]), log_p_CM.view(-1)[row_C[index]])
        batch, log_p_C = moved.batch, moved.log_density(target)
        state = span.state_after(torch.where(accept_C, choice_C, trials))
        tried, accepted = tried + len(active), accepted + len(index)
    expected = None
    if weigh_trials:
        expected = Weighted(pack([part.batch for part in kept]), torch.cat([part.weight_B for part in kept]) / len(batch))
    return Chains(batch, log_p_C), MoveInfo(tried, accepted, expected=expected)


def random_blocks(rng: torch.Generator, lengths_C: Tensor, block: int) -> Tensor:
    """[C] one of the blocks of each chain."""
    n_C = (lengths_C + block - 1) // block
    level_C = torch.rand(len(lengths_C), generator=rng, dtype=torch.float64).to(lengths_C.device)
    return (level_C * n_C).long().clamp(max=n_C - 1)


def expected_of(rng: torch.Generator, now: Batch, trial: Batch, prob_CM: Tensor, keeping: Tensor) -> Weighted:
    """What is expected of these chains: their trials, and the sentences that stand there now with what is left over."""
    C, M = prob_CM.shape
    weight_KM = torch.cat([prob_CM, (1 - prob_CM.sum(1, keepdim=True)).clamp(min=0)], 1)[keeping]
    level_KM = torch.rand(weight_KM.shape, generator=rng, dtype=torch.float64).to(weight_KM.device)
    chain_K, trial_K = (level_KM * ROULETTE < weight_KM).nonzero().unbind(1)
    number_K = keeping[chain_K]
    row_K = torch.where(trial_K < M, number_K * M + trial_K, C * M + number_K)
    return Weighted(pack([trial, now]).select(row_K), weight_KM[chain_K, trial_K].clamp(min=ROULETTE))


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
