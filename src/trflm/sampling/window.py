"""A jump among all lengths of a window at once, in place of the local jump (not in the paper).

The lengths 1..m are cut into windows of w lengths, at an offset drawn anew for every chain. A chain at (k, x) whose window is
[a, b] is given words y_k+1..b ~ g(. | x), so that it has b words in all, y = (x, y_k+1..b). In the joint distribution of
length and words

    p(l, y_1..l) g(y_l+1..b | y_1..l),      l = a..b,

the length given the words has the probabilities

    P(l | y) ~ p(l, y_1..l) g(y_l+1..b | y_1..l)

from which the new length is drawn: a Gibbs step, always accepted. The windows do not depend on k, and g sees the same b words
for every l, so the step leaves p as it is. E[P(l | y)] is the share of length l: an estimate of it from every length within
reach, where the local jump has one count.

Shapes: C chains, w lengths a window, P = the lengths of all their windows.
"""

import torch
from torch import Tensor

from trflm.lms.proposals.protocol import DRAW, Proposal, draw
from trflm.sampling.chains import Chains, MoveInfo, Target
from trflm.sampling.jump import truncate
from trflm.text import Batch


def windows(from_C: Tensor, offset_C: Tensor, width: int, max_length: int) -> tuple[Tensor, Tensor]:
    """(a, b) of the window that holds each length; offsets are 0..w-1."""
    first_C = from_C - (from_C - 1 + offset_C) % width
    return first_C.clamp(min=1), (first_C + width - 1).clamp(max=max_length)


def length_log_probs(log_p_Cw: Tensor, log_g_Cw: Tensor) -> Tensor:
    """[C, w] log P(l | y). `log_p_Cw` is the target of the first a, a + 1, .. words, -inf beyond b; `log_g_Cw` the density of
    the word that is added on the way to each, 0 for the first."""
    after_Cw = log_g_Cw.sum(1, keepdim=True) - log_g_Cw.cumsum(1)  # of the words that a length leaves out
    return (log_p_Cw + after_Cw).log_softmax(1)


def window_jump(
    rng: torch.Generator, chains: Chains, target: Target, proposal: Proposal, width: int
) -> tuple[Chains, MoveInfo]:
    """One jump of every chain; accepted are those that change their length."""
    # 1. The window of each chain.
    now, m = chains.batch, target.max_length
    device, C = now.device, len(now)
    level_C = torch.rand(C, generator=rng, dtype=torch.float64).to(device)
    low_C, high_C = windows(now.lengths_B, (level_C * width).long().clamp(max=width - 1), width, m)

    # 2. Words up to the end of the window: the chain's own, then drawn ones.
    given_Cw = torch.full((C, width), DRAW, device=device)  # entry t is word a + t
    place_N = now.position_N + 1 - low_C[now.sentence_N]
    inside = (place_N > 0).nonzero().squeeze(1)
    given_Cw[now.sentence_N[inside], place_N[inside]] = now.ids_N[inside]
    words_Cw, log_g_Cw = torch.zeros_like(given_Cw), torch.zeros(C, width, dtype=torch.float64, device=device)
    active, state = torch.arange(C, device=device), proposal.after(truncate(now, low_C), high_C)
    for t in range(1, width):
        going = (low_C[active] + t <= high_C[active]).nonzero().squeeze(1)
        if not len(going):
            break
        active, state = active[going], state.select(going)
        one = torch.ones_like(active)
        span = proposal.propose(rng, state, given_Cw[active, t][:, None, None], one, high_C[active] - low_C[active] - t + 1)
        words_Cw[active, t], log_g_Cw[active, t] = span.words_CMs[:, 0, 0], span.log_q_CM[:, 0]
        state = span.state_after(torch.zeros_like(active))

    # 3. Score every length of the window, and draw one.
    chain_P, place_P = (torch.arange(width, device=device) <= (high_C - low_C)[:, None]).nonzero().unbind(1)
    every = beginnings(now, low_C, words_Cw, chain_P, place_P)
    log_p_Cw = torch.full((C, width), -torch.inf, dtype=torch.float64, device=device)
    log_p_Cw[chain_P, place_P] = target.log_density(every)
    log_prob_Cw = length_log_probs(log_p_Cw, log_g_Cw)
    choice_C = draw(log_prob_Cw, rng)
    row_Cw = torch.zeros_like(given_Cw).index_put_((chain_P, place_P), torch.arange(len(chain_P), device=device))
    batch = every.select(row_Cw.gather(1, choice_C[:, None]).squeeze(1))
    reach_kl = torch.zeros(m + 1, m + 1, dtype=torch.float64, device=device)
    reach_kl.index_put_((now.lengths_B[chain_P], every.lengths_B), log_prob_Cw[chain_P, place_P].exp(), accumulate=True)
    changed = int((batch.lengths_B != now.lengths_B).sum())
    return Chains(batch, log_p_Cw.gather(1, choice_C[:, None]).squeeze(1)), MoveInfo(C, changed, reach_kl)


def beginnings(now: Batch, low_C: Tensor, words_Cw: Tensor, chain_P: Tensor, place_P: Tensor) -> Batch:
    """The first a + t words of a chain, for each pair (chain, t): its own up to a, then those of `words_Cw`."""
    lengths_P = low_C[chain_P] + place_P
    empty = Batch(now.ids_N.new_empty(int(lengths_P.sum())), lengths_P)
    chain_N, place_N = chain_P[empty.sentence_N], empty.position_N + 1 - low_C[chain_P[empty.sentence_N]]
    own_N = now.ids_N[(now.starts_B[chain_N] + empty.position_N).clamp(max=now.n_words - 1)]
    return Batch(torch.where(place_N > 0, words_Cw[chain_N, place_N.clamp(min=0)], own_N), lengths_P)
