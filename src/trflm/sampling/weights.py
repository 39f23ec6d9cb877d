"""Importance weights in logs: their mean, how many equal ones they are worth, and how far a temperature may go at once.

With weights w_i: ESS = (sum w)^2 / sum w^2. A step of the inverse temperature from b to b' multiplies each by
v_i = exp((b' - b) s_i); its conditional ESS (Zhou, Johansen and Aston 2016) is n (sum W v)^2 / sum W v^2 with W the normalised
weights before the step: unlike the ESS it speaks of this step alone, so that equal conditional ESS places temperatures evenly.

Shapes: n weights, `...` any number of groups of them before.
"""

import math

import torch
from torch import Tensor

HALVINGS = 40  # of the interval in which a temperature is sought


def log_mean(log_w: Tensor) -> Tensor:
    """[..., n] -> [...] log of the mean weight."""
    return torch.logsumexp(log_w, -1) - math.log(log_w.shape[-1])


def effective_size(log_w: Tensor) -> Tensor:
    """[..., n] -> [...] between 1 and n."""
    return (2 * torch.logsumexp(log_w, -1) - torch.logsumexp(2 * log_w, -1)).exp()


def conditional_share(log_w_n: Tensor, log_v_n: Tensor) -> float:
    """The conditional ESS of a step v, as a share of n: between 0 and 1."""
    log_W_n = log_w_n.log_softmax(0)
    return float((2 * torch.logsumexp(log_W_n + log_v_n, 0) - torch.logsumexp(log_W_n + 2 * log_v_n, 0)).exp())


def next_temperature(log_w_n: Tensor, score_n: Tensor, now: float, share: float) -> float:
    """The inverse temperature in (now, 1] whose step has this conditional share, or 1 if that has a greater one."""
    if conditional_share(log_w_n, (1 - now) * score_n) >= share:
        return 1.0
    low, high = now, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if conditional_share(log_w_n, (middle - now) * score_n) >= share:
            low = middle
        else:
            high = middle
    return max(low, now + 1e-6)


def stretched(temperatures: Tensor, n_steps: int) -> Tensor:
    """[n_steps + 1] the same course from 0 to 1 in another number of steps, by linear interpolation."""
    place = torch.linspace(0, len(temperatures) - 1, n_steps + 1, dtype=torch.float64)
    low = place.floor().long().clamp(max=len(temperatures) - 2)
    return temperatures[low] + (place - low) * (temperatures[low + 1] - temperatures[low])
