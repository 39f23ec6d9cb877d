"""What to watch while chains sample a field that is trained: a stuck sampler, a zeta that runs away, lengths against pi0."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from trflm.errors import TrainingError
from trflm.field.trf import TRF

STUCK, STUCK_STEPS = 1e-3, 100  # an acceptance below 1e-3 for 100 steps in a row is a stuck sampler


def stop_if_stuck(steps_of: Mapping[str, int]) -> None:
    """`steps_of`: for how many steps in a row next to none of these moves were accepted."""
    for what, steps in steps_of.items():
        if steps >= STUCK_STEPS:
            raise TrainingError(
                f"the sampler is stuck: for {steps} steps fewer than {STUCK:.1%} of the {what} were accepted. The proposal "
                "does not follow the model: lower learner.lr, or raise learner.trials or learner.lr_proposal. What was "
                "saved before is kept"
            )


def stop_if_zeta_runs_away(trf: TRF, cap: float) -> None:
    a_word = trf.zeta[2:] / torch.arange(1, trf.max_length, device=trf.zeta.device)
    most = 10 * math.log(len(trf.vocab) + 1) + cap
    if len(a_word) and float(a_word.abs().max()) > most:
        raise TrainingError(
            f"zeta runs away: it has grown to {float(a_word.abs().max()):.0f} a word (log V is "
            f"{math.log(len(trf.vocab)):.1f}). Lower learner.lr or learner.zeta_cap. What was saved before is kept"
        )


def lengths_in_tens(share: Tensor, pi0: Tensor) -> list[tuple[int, int, float]]:
    """The histogram of the chains' lengths, in tens: (from, to, their share over pi0's share). 1 is as it should be."""
    m = len(pi0) - 1
    bins = [(low, min(low + 9, m)) for low in range(1, m + 1, 10)]
    sums = [(low, high, share[low : high + 1].sum(), pi0[low : high + 1].sum()) for low, high in bins]
    return [(low, high, float(chains / expected)) for low, high, chains, expected in sums]
