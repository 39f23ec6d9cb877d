"""How many steps apart the values of a chain are as good as independent.

    tau = 1 + 2 sum_k rho_k,     rho_k the correlation of values k steps apart, over all chains; the sum goes up to the first
                                 window W with W >= 5 tau (Sokal)

C chains are then worth C / tau independent draws a step. What all chains do alike (a field that is being trained) is not
correlation of a chain with itself: each step's mean over the chains is taken off first.

Shapes: T steps, C chains.
"""

import torch
from torch import Tensor

WINDOW = 5.0  # in units of tau


def integrated_autocorrelation(value_TC: Tensor) -> float:
    """tau, at least 1; 1 for fewer than two steps or chains."""
    T, C = value_TC.shape
    if T < 2 or C < 2:
        return 1.0
    spread_TC = value_TC.double() - value_TC.double().mean(1, keepdim=True)
    variance = float(spread_TC.square().mean())
    if variance == 0:
        return 1.0
    tau = 1.0
    for lag in range(1, T):
        tau += 2 * float((spread_TC[:-lag] * spread_TC[lag:]).mean()) / variance
        if lag >= WINDOW * tau:
            break
    return max(tau, 1.0)


def beyond_length(value_TC: Tensor, lengths_C: Tensor) -> Tensor:
    """[T, C] what a straight line through the lengths leaves of each step's values.

    Of chains whose lengths never change: their values would else differ for ever by what lengths differ.
    """
    spread_C = lengths_C.double() - lengths_C.double().mean()
    spread_TC = value_TC.double() - value_TC.double().mean(1, keepdim=True)
    slope_T1 = (spread_TC * spread_C).sum(1, keepdim=True) / spread_C.square().sum().clamp(min=1e-9)
    return spread_TC - slope_T1 * spread_C


def recent(history_TC: Tensor, value_C: Tensor, most: int) -> Tensor:
    """The history with one more step, of the last `most` steps."""
    return torch.cat([history_TC[-(most - 1) :], value_C[None].to(history_TC)])
