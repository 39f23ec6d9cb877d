"""A running mean of theta and zeta over the steps (Polyak and Ruppert): noise in them averages out, what they learn does not.

    mean_n = mean_{n-1} + (value_n - mean_{n-1}) (1 - min{average, (n + 1) / (n + 10)})

As long as the second term is the smaller one, the mean is over about the last third of the steps, whatever their number.
"""

import copy

import torch

from trflm.field.trf import TRF
from trflm.potentials.tilted import Tilted


class MeanField:
    """A field of its own, whose parameters and zeta are the means of another's."""

    def __init__(self, trf: TRF, average: float) -> None:
        shared = {id(trf.potential.reference): trf.potential.reference} if isinstance(trf.potential, Tilted) else {}
        self.trf = copy.deepcopy(trf, dict(shared))
        self.average = average

    @torch.no_grad()
    def update(self, now: TRF, n: int) -> None:
        """After step n of the other field, n = 1, 2, ..."""
        new = 1 - min(self.average, (n + 1) / (n + 10))
        self.trf.zeta.lerp_(now.zeta, new)
        for mean, value in zip(self.trf.potential.parameters(), now.potential.parameters(), strict=True):
            mean.lerp_(value, new)

    def follow(self, now: TRF) -> None:
        """Become the other field."""
        self.trf.load_state_dict(now.state_dict())
