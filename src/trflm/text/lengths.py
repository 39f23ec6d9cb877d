"""Length distributions: pi (empirical, used for scoring) and pi0 (used in training).

Both are indexed by length: entry l is the probability of length l, entry 0 is 0, and the entries sum to one.
"""

import torch
from torch import Tensor

PI_FLOOR = 1e-5


def empirical_pi(lengths_B: Tensor, max_length: int | None = None) -> Tensor:
    """pi_l = |D_l| / |D|, shape [m+1], float64."""
    longest = int(lengths_B.max())
    if max_length is not None and longest > max_length:
        raise ValueError(f"a sentence of {longest} words is longer than max_length = {max_length}")
    return shares(torch.bincount(lengths_B.cpu().long(), minlength=(max_length or longest) + 1))


def shares(counts: Tensor) -> Tensor:
    """Counts as shares of their sum, float64."""
    return counts.double() / counts.double().sum()


def training_pi0(pi: Tensor) -> Tensor:
    """pi0: flat at the mode's height below the mode, the empirical tail above it (floor 1e-5), renormalised.

    Short sentences are raised to the mode because every longer one is reached by jumping up through them.
    """
    mode = int(pi.argmax())
    pi0 = pi.clamp(min=PI_FLOOR)
    pi0[1:mode] = pi[mode]
    pi0[0] = 0.0
    return pi0 / pi0.sum()


def draw_from_cdf(cdf: Tensor, n: int, rng: torch.Generator) -> Tensor:
    """n independent indices with P(i) = cdf[i] - cdf[i-1]; never an index of probability 0."""
    uniform_n = torch.rand(n, generator=rng, dtype=torch.float64) * cdf[-1]
    return torch.searchsorted(cdf, uniform_n, right=True).clamp(max=len(cdf) - 1)


def strata_from_cdf(cdf: Tensor, n: int, rng: torch.Generator) -> Tensor:
    """The same, one index from each n-th part of the probability, in random order: index i comes n P(i) times, rounded up or
    down, and n P(i) times on average."""
    level_n = (torch.arange(n, dtype=torch.float64) + torch.rand(1, generator=rng, dtype=torch.float64)) / n * cdf[-1]
    index_n = torch.searchsorted(cdf, level_n, right=True).clamp(max=len(cdf) - 1)
    return index_n[torch.randperm(n, generator=rng)]
