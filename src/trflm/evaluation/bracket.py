"""Bounds of the log-likelihood of a text under a random field, from estimates of log Z_l.

    log p(text) = A - S,    A = sum_x log pi_l + phi(x) exactly,    S = sum_l n_l log Z_l,   n_l sentences of length l

Work goes in rounds. Round k makes R_l independent estimates of every length, with E[Zhat] = Z_l given all before it, and
S_k = sum_l n_l / R_l sum_r log Zhat_{l,k,r}. Let u >= n_l / R_l for all l. Then for every t in [0, 1] E[(Zhat / Z)^t] <= 1
(Jensen), so

    M_k = prod_{i <= k} exp((S_i - S) / u)

is a product of such powers: a supermartingale that starts at 1. By Ville's inequality P(M_k >= 1 / alpha for some k) <=
alpha: with probability 1 - alpha, S >= mean of S_i over the rounds - u log(1 / alpha) / k, for all k at once. So one may
look at any time, stop when one likes, and let sizes depend on earlier rounds. Rounds that were too small may be left out at
the beginning: the mixture sum_j 2^-(j+1) M^(j), where M^(j) starts with round j, is a supermartingale as well, so leaving
out j rounds costs (j + 1) log 2 beside log(1 / alpha). The same with inverses bounds S from above, if the samples that
backward starts from are exact. See docs/math.md.

Shapes: K rounds.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from trflm.sampling.chains import Chains
from trflm.sampling.draw import FixedLength
from trflm.sampling.estimator import Estimates, Estimator, Problem
from trflm.sampling.exact import all_of_length
from trflm.sampling.gibbs import block_gibbs
from trflm.text import Batch, pack

RUNS = 32  # estimates a round, about: lengths with more than a 32nd of the sentences get several

# From estimates of several lengths to as many sentences of the field, one from each estimate.
Samples = Callable[[torch.Generator, list[Estimates]], list[Batch]]


@dataclass(frozen=True)
class Round:
    size: int
    forward: float  # S_k
    backward: float
    log_Z: dict[int, Tensor]  # [R_l] forward


class Bracket:
    """One field, and how often a text has each length: what is known of S."""

    def __init__(self, problem: Problem, counts: dict[int, int], alpha: float = 0.05, most_enumerated: int = 2000) -> None:
        """Lengths of at most `most_enumerated` sentences are summed over exactly; those of one word always are."""
        trf, self.counts, self.alpha = problem.trf, counts, alpha
        V = len(trf.vocab)
        self.enumerated = {
            length: float(torch.logsumexp(trf.phi(all_of_length(V, length)), 0))
            for length in self.counts
            if V**length <= max(most_enumerated, V)
        }
        left = {length: n for length, n in self.counts.items() if length not in self.enumerated}
        unit = max(1, math.ceil(sum(left.values()) / RUNS))
        self.runs = {length: math.ceil(n / unit) for length, n in left.items()}
        self.unit = max((n / self.runs[length] for length, n in left.items()), default=0.0)  # u
        self.rounds: list[Round] = []

    @property
    def is_exact(self) -> bool:
        """Every length was enumerated."""
        return not self.runs

    def advance(self, rng: torch.Generator, estimator: Estimator, size: int, samples: Samples) -> Round:
        """One more round. A length with few sentences gets less work an estimate: its error counts for less."""

        def estimators(length: int) -> Estimator:
            share = self.counts[length] / self.runs[length] / self.unit
            return estimator.sized(max(1, round(size * math.sqrt(share))))

        forward = {length: estimators(length).forward(rng, length, n) for length, n in self.runs.items()}
        starts = samples(rng, list(forward.values()))
        backward = {
            length: estimators(length).backward(rng, start, forward[length])
            for length, start in zip(forward, starts, strict=True)
        }
        ahead = {length: found.log_Z_R for length, found in forward.items()}
        self.rounds.append(Round(size, self._sum(ahead), self._sum(backward), ahead))
        return self.rounds[-1]

    def _sum(self, log_Z: dict[int, Tensor]) -> float:
        """sum_l n_l log Z_l over all lengths, those of one length averaged."""
        known = sum(self.counts[length] * value for length, value in self.enumerated.items())
        return known + sum(self.counts[length] * float(value_R.mean()) for length, value_R in log_Z.items())

    def bounds(self) -> tuple[float, float]:
        """S from below and from above, each with probability 1 - alpha for all moments at once; infinite before round 1."""
        if self.is_exact:
            return self._sum({}), self._sum({})
        low, high = -math.inf, math.inf
        for k in range(1, len(self.rounds) + 1):
            for j in range(k):
                slack = self.unit * (math.log(1 / self.alpha) + (j + 1) * math.log(2)) / (k - j)
                low = max(low, sum(r.forward for r in self.rounds[j:k]) / (k - j) - slack)
                high = min(high, sum(r.backward for r in self.rounds[j:k]) / (k - j) + slack)
        return low, high

    def estimate(self) -> dict[int, float]:
        """log Z_l: of all rounds together, weighed by their work."""
        found = dict(self.enumerated)
        for length in self.runs:
            log_w = torch.cat([r.log_Z[length] + math.log(r.size) for r in self.rounds])
            work = sum(r.size * len(r.log_Z[length]) for r in self.rounds)
            found[length] = float(torch.logsumexp(log_w, 0)) - math.log(work)
        return found


def length_counts(text: Batch) -> dict[int, int]:
    """n_l, of the lengths there are."""
    return {length: n for length, n in enumerate(torch.bincount(text.lengths_B).tolist()) if n}


def burnt_in(problem: Problem, sweeps: int, block: int, trials: int) -> Samples:
    """The sentences that estimates chose by weight, after so many sweeps of the field's own Markov move. Not exact samples."""

    def samples(rng: torch.Generator, found: list[Estimates]) -> list[Batch]:
        target = FixedLength(problem.trf)
        # Each estimate is given another's sentence, where there is another of its length.
        drawn = [estimates.drawn.select(torch.arange(len(estimates.drawn)).roll(1)) for estimates in found]
        chains = Chains.at(pack(drawn), target)
        for _ in range(sweeps):
            chains, _ = block_gibbs(rng, chains, target, problem.proposal, block, trials)
        index = torch.arange(len(chains.batch)).split([len(batch) for batch in drawn])
        return [chains.batch.select(part) for part in index]

    return samples
