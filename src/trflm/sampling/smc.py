"""Sequential Monte Carlo: sentences of one length grow word by word from the proposal, and are resampled on the way by what the
field says of their prefixes already.

    gamma_t(x_1..t) = q(x_1..t) exp(b h_t(x_1..t)),  t < l,        gamma_l(x) = exp(phi(x))

h_t is a guide's guess of phi - log q from t words (`guide`): for a CNN, from the windows that are complete. b tempers it:
guesses are surer than they should be. Particles are drawn from q, so a step multiplies their weights by gamma_t /
(gamma_{t-1} q(x_t | x_<t)) = exp(b (h_t - h_{t-1})). Where the effective sample size falls below half, n particles are
drawn anew by weight. Zhat is the product of the mean weights between resamplings: E[Zhat] = Z whatever b and h are (also
with resampling that looks at the weights).

The reverse keeps one particle on the path of a sample of the field while all others do as before (conditional SMC, Andrieu,
Doucet and Holenstein 2010); then E[1/Zhat] = 1/Z.

Shapes: R runs, n particles each, P = R n particles in all, L words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from trflm.lms.proposals.protocol import DRAW
from trflm.ranges import Count, Range, Share, check_fields
from trflm.sampling.estimator import Estimates, Problem, as_rows, same_length
from trflm.sampling.guide import Guide, guide_of
from trflm.sampling.importance import grouped
from trflm.sampling.weights import effective_size, log_mean
from trflm.text import Batch

GRID = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class SMCConfig:
    kind: Literal["smc"] = "smc"
    size: Count = 128  # particles of a run
    resample: Share = 0.5  # when the effective sample size is below this share of them
    temper: Annotated[float, Range(-1, 1)] = -1.0  # b; negative: the pilot chooses
    pilot_particles: Count = 128
    pilots: Count = 3  # lengths on which b is chosen
    pilot_runs: Count = 2

    def __post_init__(self) -> None:
        check_fields(self)

    def build(self, problem: Problem) -> "SMC":
        return SMC(problem, self, guide_of(problem.trf.potential), self.size, self.temper)


@dataclass(frozen=True)
class SMCInfo:
    resampled: int  # times, over all runs


def particle_filter(
    rng: torch.Generator, problem: Problem, guide: Guide, b: float, resample: float, kept_RL: Tensor, length: int, size: int
) -> tuple[Estimates, SMCInfo]:
    """R runs of n particles. `kept_RL` are the words of particle 0 of every run; DRAW draws them like all others."""
    R, n, device = len(kept_RL), size, kept_RL.device
    first_P = torch.arange(R * n, device=device) // n * n
    words_PL = torch.zeros(R * n, length, dtype=torch.int64, device=device)
    state, guessed = problem.proposal.start(R * n), guide.start(R * n)
    log_w_Rn, log_Z_R = (
        torch.zeros(R, n, dtype=torch.float64, device=device),
        torch.zeros(R, dtype=torch.float64, device=device),
    )
    word_log_q_PL = torch.zeros(R * n, length, dtype=torch.float64, device=device)
    h_P, ones_P, resampled = torch.zeros(R * n, dtype=torch.float64, device=device), torch.ones_like(first_P), 0
    for t in range(length):
        # 1. One more word for every particle, from q.
        given_P11 = torch.full((R * n, 1, 1), DRAW, device=device)
        given_P11[::n, 0, 0] = kept_RL[:, t]
        span = problem.proposal.propose(rng, state, given_P11, ones_P, (length - t) * ones_P)
        words_PL[:, t], word_log_q_PL[:, t] = span.words_CMs[:, 0, 0], span.log_q_CM[:, 0]
        if t == length - 1:
            break
        state = span.state_after(0 * ones_P)
        # 2. Weigh the longer prefixes.
        if b:
            guessed, known_P = guide.step(guessed, words_PL[:, : t + 1])
            new_h_P = known_P - word_log_q_PL[:, : max(t + 1 - guide.lag, 0)].sum(1)
            log_w_Rn = log_w_Rn + b * (new_h_P - h_P).view(R, n)
            h_P = new_h_P
        # 3. Draw anew by weight in the runs that need it. The kept particle stays.
        poor_R = effective_size(log_w_Rn) < resample * n
        if bool(poor_R.any()):
            log_Z_R = torch.where(poor_R, log_Z_R + log_mean(log_w_Rn), log_Z_R)
            parent_P = torch.where(poor_R[first_P // n], first_P + ancestors(rng, log_w_Rn), torch.arange(R * n, device=device))
            is_kept_R = kept_RL[:, t] != DRAW
            parent_P[::n] = torch.where(is_kept_R, first_P[::n], parent_P[::n])
            log_w_Rn = torch.where(poor_R[:, None], 0.0, log_w_Rn)
            words_PL, word_log_q_PL, h_P = words_PL[parent_P], word_log_q_PL[parent_P], h_P[parent_P]
            state, guessed = state.select(parent_P), guessed.select(parent_P)
            resampled += int(poor_R.sum())
    # 4. The field's own word on whole sentences.
    whole = same_length(words_PL)
    log_w_Rn = log_w_Rn + (problem.score(whole, word_log_q_PL.sum(1)) - b * h_P).view(R, n)
    last = grouped(rng, whole, log_w_Rn)
    return Estimates(log_Z_R + last.log_Z_R, log_w_Rn, last.drawn), SMCInfo(resampled)


def ancestors(rng: torch.Generator, log_w_Rn: Tensor) -> Tensor:
    """[P] for every particle one of its run, drawn by weight, each independently of the others."""
    R, n = log_w_Rn.shape
    cdf_Rn = log_w_Rn.softmax(1).cumsum(1)
    level_Rn = torch.rand(R, n, generator=rng, dtype=torch.float64).to(cdf_Rn) * cdf_Rn[:, -1:]
    return torch.searchsorted(cdf_Rn, level_Rn, right=True).clamp(max=n - 1).view(-1)


@dataclass(frozen=True)
class SMC:
    """See `estimator.Estimator`."""

    problem: Problem
    config: SMCConfig
    guide: Guide
    size: int
    b: float

    def prepare(self, rng: torch.Generator, lengths: Sequence[int]) -> "SMC":
        """b: that which gives the greatest mean of log Zhat. Each is below log Z on average, so the greatest is the best."""
        if self.b >= 0:
            return self
        ordered, config = sorted(set(lengths)), self.config
        n = min(config.pilots, len(ordered))
        chosen = [ordered[(2 * k + 1) * len(ordered) // (2 * n)] for k in range(n)]
        small = [replace(self, b=b, size=config.pilot_particles) for b in GRID]
        means = [sum(float(s.forward(rng, length, config.pilot_runs).log_Z_R.mean()) for length in chosen) for s in small]
        return replace(self, b=GRID[max(range(len(GRID)), key=means.__getitem__)])

    def sized(self, size: int) -> "SMC":
        return replace(self, size=size)

    def forward(self, rng: torch.Generator, length: int, n: int) -> Estimates:
        kept_RL = torch.full((n, length), DRAW, device=self.problem.trf.zeta.device)
        return self._run(rng, kept_RL)

    def backward(self, rng: torch.Generator, samples: Batch, forward: Estimates) -> Tensor:
        return self._run(rng, as_rows(samples)).log_Z_R

    def _run(self, rng: torch.Generator, kept_RL: Tensor) -> Estimates:
        assert self.b >= 0, "prepare comes first"
        length, resample = kept_RL.shape[1], self.config.resample
        return particle_filter(rng, self.problem, self.guide, self.b, resample, kept_RL, length, self.size)[0]

    def describe(self) -> str:
        return f"sequential Monte Carlo, {self.size} particles a run, prefixes tempered by {self.b:g}"
