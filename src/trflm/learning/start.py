"""Where AugSA starts, from a field that was trained otherwise: proposal, zeta and chains are brought in line with it first.

1. The proposal learns the text: Adam on the mean of log q over its words, at a rate that falls along a line to nothing.
2. zeta_l = log Zhat_l - log Z_1 by importance sampling with the proposal, where its effective sample size is large enough;
   elsewhere by sequential Monte Carlo from the same proposal. Then it is smoothed over the lengths:

       minimise sum_l (zeta_l - found_l)^2 / v_l + sum_l (l (zeta_{l+1} - 2 zeta_l + zeta_{l-1}))^2

   v_l the variance of an estimate: second differences of about 1 / l are expected. zeta_1 = 0 is exact.
3. The chains are draws of the proposal, or sentences of the text, of lengths drawn from pi0, after sweeps of the Markov move.

Shapes: C chains, m the longest sentence of training.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trflm.field.trf import TRF
from trflm.files.cache import cached
from trflm.learning.batches import ShuffledBatches
from trflm.learning.loop import clip_gradient
from trflm.lms.proposals.lstm import LSTMProposal
from trflm.lms.proposals.protocol import draw_sentences_of
from trflm.ranges import Amount
from trflm.sampling.chains import Chains
from trflm.sampling.draw import FixedLength
from trflm.sampling.estimator import Estimates, Problem
from trflm.sampling.gibbs import block_gibbs
from trflm.sampling.importance import Importance, trusted
from trflm.sampling.mixture import TransMSConfig
from trflm.sampling.smc import SMCConfig
from trflm.sampling.weights import effective_size, log_mean
from trflm.text import Batch, Text

TEACH_BATCH, TEACH_LR, TEACH_CLIP = 64, 2e-3, 1.0
RUNS = 4  # of sequential Monte Carlo for a length
LEAST_VARIANCE = 1e-4  # of an estimate of log Z_l


@dataclass(frozen=True)
class StartConfig(TransMSConfig):
    """What AugSA does before its first step; nothing unless asked for."""

    teach_epochs: Amount = 0  # epochs of the text in which the proposal learns it
    zeta_draws: Amount = 0  # draws for zeta of each length; 0: zeta stays as it was given
    burn_in: Amount = 0  # sweeps before the first step
    chains_at_data: bool = False  # chains start at sentences of the text, not at draws of the proposal

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.teach_epochs, self.zeta_draws, self.burn_in) < 0:
            raise ValueError("teach_epochs, zeta_draws and burn_in must not be negative")


def teach(proposal: LSTMProposal, text: Text, epochs: int, seed: int) -> None:
    """Step 1. Minutes on a real text, so the result is kept in the cache."""

    def compute() -> dict[str, Tensor]:
        batches = ShuffledBatches(text, TEACH_BATCH, seed, alike=True)
        steps = epochs * batches.per_epoch
        adam = torch.optim.Adam(proposal.parameters(), lr=TEACH_LR)
        for step in range(steps):
            adam.param_groups[0]["lr"] = TEACH_LR * (1 - step / steps)
            adam.zero_grad()
            (-proposal.word_log_q(batches.of_step(step).to(proposal.embedding.device)).mean()).backward()
            clip_gradient(list(proposal.parameters()), TEACH_CLIP)
            adam.step()
        return {name: value.detach().cpu() for name, value in proposal.state_dict().items()}

    before = torch.cat([value.detach().cpu().double().flatten() for value in proposal.state_dict().values()])
    made_from = [*text.content(), before.view(torch.int64)]
    proposal.load_state_dict(cached(f"proposal taught, {epochs} epochs, seed {seed}", made_from, compute))


def estimate_zeta(rng: torch.Generator, trf: TRF, proposal: LSTMProposal, draws: int) -> str:
    """Step 2."""
    problem, lengths = Problem(trf, proposal), lengths_to_estimate(trf.max_length)
    sampling, found, poor = Importance(problem, draws), {1: (trf.log_Z1(), 0.0)}, []
    for length in lengths:
        estimates = sampling.forward(rng, length, 1)
        if trusted(estimates):
            found[length] = (float(estimates.log_Z_R[0]), variance_of(estimates))
        else:
            poor.append(length)
    if poor:
        filtering = SMCConfig(size=draws).build(problem).prepare(rng, poor)
        for length in poor:
            log_Z_R = filtering.forward(rng, length, RUNS).log_Z_R
            found[length] = (float(log_mean(log_Z_R)), float(log_Z_R.var()) / RUNS)
    trf.zeta.copy_(smoothed(found, trf.max_length))
    by_smc = f", by sequential Monte Carlo from {min(poor)} words on" if poor else ""
    return f"zeta from {draws} draws each of {len(found)} lengths{by_smc}"


def lengths_to_estimate(max_length: int) -> list[int]:
    """From 2 on, ever wider apart: every length up to 10 words, every tenth one at 100."""
    lengths = [2]
    while lengths[-1] < max_length:
        lengths.append(min(lengths[-1] + 1 + lengths[-1] // 10, max_length))
    return [length for length in lengths if length <= max_length]


def variance_of(estimates: Estimates) -> float:
    """Of the log of a mean of weights, by their spread: 1 / ESS - 1 / n."""
    return float(1 / effective_size(estimates.log_w_Rn)[0]) - 1 / estimates.log_w_Rn.shape[1]


def smoothed(found: dict[int, tuple[float, float]], max_length: int) -> Tensor:
    """[m+1] zeta from (log Z_l, its variance) of some lengths, 1 among them; zeta[1] is 0."""
    first, m = found[1][0], max_length
    left, right = torch.zeros(m, m, dtype=torch.float64), torch.zeros(m, dtype=torch.float64)
    for length, (log_Z, variance) in found.items():
        weight = 1e6 if length == 1 else 1 / (variance + LEAST_VARIANCE)
        left[length - 1, length - 1] += weight
        right[length - 1] += weight * (log_Z - first)
    for length in range(2, m):
        at = slice(length - 2, length + 1)
        bend = torch.tensor([1.0, -2.0, 1.0], dtype=torch.float64) * length
        left[at, at] += torch.outer(bend, bend)
    zeta = torch.linalg.solve(left, right)
    return torch.cat([zeta.new_zeros(1), zeta - zeta[0]])


def start_chains(
    rng: torch.Generator, trf: TRF, proposal: LSTMProposal, lengths_C: Tensor, text: Batch, config: StartConfig
) -> Batch:
    """Step 3. A length that the text does not have is taken from the proposal all the same."""
    batch = draw_sentences_of(proposal, lengths_C, rng)
    if config.chains_at_data:
        batch = at_data(rng, batch, text.to(batch.device))
    chains, target = Chains(batch), FixedLength(trf)
    for _ in range(config.burn_in):
        chains, _ = block_gibbs(rng, chains, target, proposal, config.block, config.trials)
    return chains.batch


def at_data(rng: torch.Generator, drawn: Batch, text: Batch) -> Batch:
    """Each sentence replaced by one of the text of the same length, if there is one."""
    order = torch.randperm(len(text), generator=rng).to(text.device)
    by_length = order[torch.argsort(text.lengths_B[order], stable=True)]
    counts = torch.bincount(text.lengths_B, minlength=int(drawn.lengths_B.max()) + 1)
    first = counts.cumsum(0) - counts
    level_C = torch.rand(len(drawn), generator=rng, dtype=torch.float64).to(text.device)
    count_C = counts[drawn.lengths_B]
    row_C = first[drawn.lengths_B] + (level_C * count_C).long().clamp(max=(count_C - 1).clamp(min=0))
    both = Batch(torch.cat([text.ids_N.long(), drawn.ids_N]), torch.cat([text.lengths_B.long(), drawn.lengths_B]))
    number_C = torch.arange(len(drawn), device=text.device) + len(text)
    chosen = by_length[row_C.clamp(max=len(text) - 1)]
    return both.select(torch.where(count_C > 0, chosen, number_C))
