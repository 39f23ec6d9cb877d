"""phi(x) = sum_k phi_k(x): any potentials side by side. In probabilities, a product of their fields."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Generator, Tensor, nn

from trflm.potentials.protocol import Potential
from trflm.text import Batch


class Mixed(nn.Module):
    """The sum of its parts; each is scored by its own quickest way."""

    def __init__(self, parts: Sequence[Potential]) -> None:
        super().__init__()
        assert parts
        self.part = nn.ModuleList(cast(Sequence[nn.Module], parts))

    @property
    def parts(self) -> list[Potential]:
        return cast(list[Potential], list(self.part))

    def forward(self, batch: Batch, rng: Generator | None = None) -> Tensor:
        """phi_B. The parts draw their dropout from the generator one after the other."""
        return torch.stack([part(batch, rng) for part in self.parts]).sum(0)

    def contributions(self, batch: Batch) -> Tensor:
        return torch.stack([part.contributions(batch) for part in self.parts]).sum(0)

    def score(self, batch: Batch) -> Tensor:
        return torch.stack([part.score(batch) for part in self.parts]).sum(0)

    def forget(self) -> None:
        for part in self.parts:
            part.forget()
