"""Step I of TransMS, the local jump between lengths (eq:ac1, eq:ac2).

From length k a length j is drawn uniformly from [max(k-r, 1), min(k+r, m)], k itself included. If j > k, words
u ~ g(. | x) are appended; if j < k, the last words are dropped. Accepted with probability

    min{1, Gamma(j,k)/Gamma(k,j) * p(j, {x,u}) / (p(k, x) g(u | x))}                        j > k
    min{1, Gamma(j,k)/Gamma(k,j) * p(j, x_1:j) g(x_j+1:k | x_1:j) / p(k, x)}                j < k

Shapes: C chains.
"""

import torch
from torch import Tensor

from trflm.lms.proposals.protocol import DRAW, Proposal
from trflm.sampling.chains import Chains, MoveInfo, Target, replace
from trflm.text import Batch, pack


def log_gamma(from_C: Tensor, jump_range: int, max_length: int) -> Tensor:
    """log Gamma(k, .): the same for every j within reach of k."""
    low_C, high_C = (from_C - jump_range).clamp(min=1), (from_C + jump_range).clamp(max=max_length)
    return -(high_C - low_C + 1).double().log()


def jump_log_acceptance(
    from_C: Tensor, to_C: Tensor, log_p_from_C: Tensor, log_p_to_C: Tensor, log_g_C: Tensor, jump_range: int, max_length: int
) -> Tensor:
    """log of the acceptance probability; `log_g_C` is the density of the words by which the longer exceeds the shorter."""
    log_ratio_C = log_gamma(to_C, jump_range, max_length) - log_gamma(from_C, jump_range, max_length)
    log_ratio_C = log_ratio_C + log_p_to_C - log_p_from_C + torch.where(to_C > from_C, -log_g_C, log_g_C)
    return log_ratio_C.clamp(max=0)


def local_jump(
    rng: torch.Generator, chains: Chains, target: Target, proposal: Proposal, jump_range: int
) -> tuple[Chains, MoveInfo]:
    """One jump of every chain; a chain that draws its own length proposes nothing."""
    # 1. Draw the new lengths; chains that drew their own are done.
    sentences, m = chains.batch, target.max_length
    device = sentences.device
    from_C = sentences.lengths_B
    low_C, high_C = (from_C - jump_range).clamp(min=1), (from_C + jump_range).clamp(max=m)
    level_C = torch.rand(len(from_C), generator=rng, dtype=torch.float64).to(device)
    to_C = low_C + (level_C * (high_C - low_C + 1)).long().clamp(max=high_C - low_C)
    moving = (to_C != from_C).nonzero().squeeze(1)
    if not len(moving):
        stayed_kl = torch.bincount(from_C, minlength=m + 1).double().diag()
        return Chains(sentences, chains.log_density(target)), MoveInfo(0, 0, stayed_kl)
    old, from_C, to_C = sentences.select(moving), from_C[moving], to_C[moving]

    # 2. Draw the words to append, or score the words to drop: both are the span after the words that stay.
    stay_C, length_C = torch.minimum(from_C, to_C), torch.maximum(from_C, to_C)
    prefix = truncate(old, stay_C)
    span_C = length_C - stay_C
    given_C1s = torch.full((len(moving), 1, int(span_C.max())), DRAW, device=device)
    place_N = old.position_N - stay_C[old.sentence_N]
    dropped = (place_N >= 0).nonzero().squeeze(1)
    given_C1s[old.sentence_N[dropped], 0, place_N[dropped]] = old.ids_N[dropped]
    span = proposal.propose(rng, proposal.after(prefix, length_C), given_C1s, span_C, span_C)

    # 3. Accept or stay. Old and new sentences differ in their last words only: if both are unknown, one call scores them.
    new = append(prefix, span.words_CMs[:, 0], to_C - stay_C)
    if chains.log_p_C is None:
        log_p_C, log_p_new_C = target.log_density(pack([sentences, new])).split([len(sentences), len(new)])
    else:
        log_p_C, log_p_new_C = chains.log_p_C, target.log_density(new)
    log_accept_C = jump_log_acceptance(from_C, to_C, log_p_C[moving], log_p_new_C, span.log_q_CM[:, 0], jump_range, m)
    accepted_C = torch.rand(len(moving), generator=rng, dtype=torch.float64).to(device).log() < log_accept_C
    index = accepted_C.nonzero().squeeze(1)
    after = replace(sentences, log_p_C, moving[index], new.select(index), log_p_new_C[index])
    return after, MoveInfo(len(moving), len(index), reach(sentences.lengths_B, moving, to_C, log_accept_C.exp(), m))


def reach(before_C: Tensor, moving: Tensor, to: Tensor, accept: Tensor, max_length: int) -> Tensor:
    """[m+1, m+1] the probability of going from one length to another, summed over the chains, before it is known which were
    accepted."""
    reach_kl = torch.bincount(before_C, minlength=max_length + 1).double().diag()
    reach_kl.index_put_((before_C[moving], to), accept, accumulate=True)
    return reach_kl.index_put_((before_C[moving], before_C[moving]), -accept, accumulate=True)


def truncate(batch: Batch, keep_B: Tensor) -> Batch:
    """The first `keep_B` words of each sentence."""
    return Batch(batch.ids_N[batch.position_N < keep_B[batch.sentence_N]], keep_B)


def append(batch: Batch, words_Bs: Tensor, n_B: Tensor) -> Batch:
    """Each sentence followed by the first `n_B` of its `words_Bs`."""
    lengths_B = batch.lengths_B + n_B
    longer = Batch(batch.ids_N.new_empty(int(lengths_B.sum())), lengths_B)
    place_N = longer.position_N - batch.lengths_B[longer.sentence_N]
    ids_N = longer.ids_N
    ids_N[place_N < 0] = batch.ids_N
    added = (place_N >= 0).nonzero().squeeze(1)
    ids_N[added] = words_Bs[longer.sentence_N[added], place_N[added]]
    return Batch(ids_N, lengths_B)
