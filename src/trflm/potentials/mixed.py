"""phi(x) = sum_k phi_k(x): any potentials side by side. In probabilities, a product of their fields."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Generator, Tensor, nn

import trflm.potentials
from trflm.kinds import Start, one_of
from trflm.potentials.protocol import Potential, PotentialConfig
from trflm.text import Batch


@dataclass(frozen=True)
class MixedConfig:
    """[model] kind = "mixed": the sum of several potentials, a section [[model.parts]] for each."""

    parts: tuple[PotentialConfig, ...] = one_of(
        lambda: tuple(kind for kind in trflm.potentials.POTENTIALS if kind is not MixedConfig), default=()
    )  # a section [[model.parts]] for each, of any other kind
    kind: Literal["mixed"] = "mixed"

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError('parts is missing: give a section [[model.parts]] with its kind = "..." for each potential')

    def build(self, start: Start) -> "Mixed":
        return Mixed([part.build(start) for part in self.parts])


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

    def contributions(self, batch: Batch, rng: Generator | None = None) -> Tensor:
        return torch.stack([part.contributions(batch, rng) for part in self.parts]).sum(0)

    def score(self, batch: Batch) -> Tensor:
        return torch.stack([part.score(batch) for part in self.parts]).sum(0)

    def forget(self) -> None:
        for part in self.parts:
            part.forget()
