"""The update of zeta (eq:upzeta1, eq:upzeta2), and the same with rare lengths held together.

    zeta_l += min{gamma_t delta_l / pi0_l, cap},  then zeta -= zeta_1                                  the paper's, capped

delta_l is the share of length l: counted, or expected (`MoveInfo.length_share`). With pi0_l near 1e-5 a chain that comes to
length l moves zeta_l by `cap`. With `smooth` = s > 0 there are knots on the lengths, hat functions B_lk that are 1 at knot k
and fall along a line to 0 at its neighbours, and zeta moves by

    gamma_t sum_k B_lk sum_j B_jk (delta_j - pi0_j) / (s + sum_j B_jk pi0_j)           a piecewise linear function of l
  + gamma_t (delta_l - pi0_l) / (s + pi0_l)                                            the remainder, between the knots

From knot to knot pi0 has a mass of s or more: where sentences are frequent every length is a knot, and nothing is smoothed. A
step is at most about gamma_t / s. It is A (delta - pi0) with A = B D B' + R positive definite (v'Av = 0 needs v = 0 between
the knots by R, and then at the knots by B), so zeta rests where delta = pi0 and nowhere else: the same zeta as the paper's.

Shapes: m the longest sentence of training, K knots.
"""

import torch
from torch import Tensor

from trflm.field.trf import TRF
from trflm.text import Batch


def two_stage(t: int, decay: float, first_stage: int) -> float:
    """gamma_t = t^-decay; after `first_stage` steps (0: never) 1 / (t - t0 + t0^decay), the best there is once zeta is near
    (Tan 2017, optimally adjusted mixture sampling)."""
    if not first_stage or t <= first_stage:
        return t**-decay
    return 1 / (t - first_stage + first_stage**decay)


class ZetaSteps:
    """From the shares of the lengths to a step of zeta."""

    def __init__(self, pi0: Tensor, cap: float, smooth: float) -> None:
        self.pi0, self.cap, self.smooth = pi0, cap, smooth
        if smooth:
            knots = knots_of(pi0, smooth)
            self.hats_mK = hats(knots, len(pi0) - 1).to(pi0)
            self.between_m = (self.hats_mK.max(1).values < 1).to(pi0)

    def step(self, gamma: float, share: Tensor) -> Tensor:
        """[m] the change of zeta_1..zeta_m; that of zeta_1 is 0."""
        pi0_m = self.pi0[1:]
        if not self.smooth:
            step_m = (gamma * share[1:] / pi0_m).clamp(max=self.cap)
        else:
            excess_m = share[1:] - pi0_m
            step_K = gamma * (excess_m @ self.hats_mK) / (self.smooth + pi0_m @ self.hats_mK)
            own_m = gamma * excess_m / (self.smooth + pi0_m) * self.between_m
            step_m = (self.hats_mK @ step_K + own_m).clamp(min=-self.cap, max=self.cap)
        return step_m - step_m[0]


def knots_of(pi0: Tensor, share: float) -> list[int]:
    """Lengths with a mass of at least `share` from each to the next; the first is 1, the last m."""
    m = len(pi0) - 1
    knots, mass = [1], 0.0
    for length in range(2, m + 1):
        mass += float(pi0[length])
        if mass >= share or length == m:
            knots.append(length)
            mass = 0.0
    return knots


def hats(knots: list[int], max_length: int) -> Tensor:
    """[m, K] the weight of each knot at lengths 1..m: rows sum to one."""
    at_K = torch.tensor(knots, dtype=torch.float64)
    length_m = torch.arange(1, max_length + 1, dtype=torch.float64)
    above_m = torch.searchsorted(at_K, length_m).clamp(min=1, max=max(len(knots) - 1, 1))
    if len(knots) == 1:
        return torch.ones(max_length, 1, dtype=torch.float64)
    low_m, high_m = at_K[above_m - 1], at_K[above_m]
    part_m = (length_m - low_m) / (high_m - low_m)
    hats_mK = torch.zeros(max_length, len(knots), dtype=torch.float64)
    row_m = torch.arange(max_length)
    hats_mK[row_m, above_m - 1] = 1 - part_m
    hats_mK[row_m, above_m] = part_m
    return hats_mK


def follow(trf: TRF, chains: Batch, phi_before_C: Tensor) -> None:
    """d log Z_l = E_{p_l}[d phi]: what the step of theta added to phi a word, by a line through the chains, goes into zeta.

    Not in the paper. Early in training phi moves by more a step than zeta's own steps can follow; the chains then all
    move to longer or shorter sentences, which pushes phi the other way, and the two swing against each other.
    """
    change_C = trf.phi(chains) - phi_before_C
    length_C = chains.lengths_B.double()
    spread = length_C - length_C.mean()
    a_word = (spread * change_C).sum() / spread.square().sum().clamp(min=1e-9)
    trf.zeta[1:] += a_word * torch.arange(trf.max_length, device=a_word.device)
