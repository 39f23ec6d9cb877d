"""What a potential is to the rest of the project. Every potential is an `nn.Module` with these methods."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from torch import Generator, Tensor, nn

from trflm.text import Batch


class Potential(Protocol):
    """phi(x; theta), one number a sentence; any finite value is allowed, no normalisation."""

    def __call__(self, batch: Batch, rng: Generator | None = None) -> Tensor:
        """phi_B, differentiable in the parameters. With a generator (training) dropout, if there is any, is drawn from it;
        without one (scoring) there is none."""
        ...

    def contributions(self, batch: Batch) -> Tensor:
        """[N] a split of phi over the words: `batch.sum_words(contributions) == phi_B`."""
        ...

    def score(self, batch: Batch) -> Tensor:
        """phi_B without gradient, by the quickest exact way."""
        ...

    def forget(self) -> None:
        """Drop what was kept for the next call. A learner's step begins with it: a kept row may differ in its last bit from
        the same row computed anew, and a continued run is to be the same run."""
        ...

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any: ...
