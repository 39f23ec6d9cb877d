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

MEMORY = 0.99  # of the mean flows


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


class FlowSteps:
    """zeta by what flows between the lengths, however many chains each has at the moment (not in the paper).

        F_kl = pi0_k P(k -> l),   P(k -> l) the mean over the chains of length k      the flow, if they had the lengths of pi0
        net_l = sum_k (F_kl - F_lk)                                                   over the lengths that have chains
        zeta += gamma_t (L + s B'B)^-1 net,   L = diag(sum_k M_kl) - M,   M the running mean of (F + F') / 2

    In equilibrium F_kl = F_lk (detailed balance), so net has the mean 0 at the exact zeta and nowhere else. Near it net is
    -L (zeta - exact), so with s = 0 this is Newton's step. B are the second differences over l: with s > 0 a length that is
    hardly seen follows its neighbours along a line. The matrix is positive definite, so zeta rests at the same place.

    Why: a count answers to zeta only after the chains have walked. If that takes tau steps from end to end, the excess a of
    long sentences and the gain gamma obey tau a'' + a' + gamma a = 0, and with gamma > 1 / (4 tau) zeta and the lengths swing
    against one another, once in 2 pi sqrt(tau / gamma) steps. A flow answers at once (tau = 0): nothing swings.
    """

    def __init__(self, pi0: Tensor, cap: float, smooth: float) -> None:
        m = len(pi0) - 1
        self.pi0, self.cap = pi0, cap
        bend_mm = torch.eye(m, dtype=pi0.dtype, device=pi0.device).diff(dim=0).diff(dim=0)  # [m - 2, m]
        self.stiff_mm = smooth * bend_mm.T @ bend_mm + (1e-3 * pi0[1:]).diag()  # a length that nobody has seen stays
        self.mean_mm: Tensor | None = None

    def step(self, gamma: float, reach_kl: Tensor) -> Tensor:
        """[m] the change of zeta_1..zeta_m; that of zeta_1 is 0."""
        flow_mm = flows(reach_kl, self.pi0)[1:, 1:]
        both_mm = (flow_mm + flow_mm.T) / 2
        self.mean_mm = both_mm if self.mean_mm is None else MEMORY * self.mean_mm + (1 - MEMORY) * both_mm
        left_mm = self.mean_mm.sum(0).diag() - self.mean_mm + self.stiff_mm
        net_m = flow_mm.sum(0) - flow_mm.sum(1)
        step_m = torch.zeros_like(net_m)
        step_m[1:] = gamma * torch.linalg.solve(left_mm[1:, 1:], net_m[1:])
        return step_m.clamp(min=-self.cap, max=self.cap)


def flows(reach_kl: Tensor, pi0: Tensor) -> Tensor:
    """[m+1, m+1] F_kl, between lengths that both have chains."""
    count_k = reach_kl.sum(1)
    return (pi0 / count_k.clamp(min=1))[:, None] * reach_kl * (count_k > 0)


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
