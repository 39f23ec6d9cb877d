"""What a potential is to the rest of the project. Every potential is an `nn.Module` with these methods."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Generator, Tensor, nn

from trflm.kinds import Start
from trflm.speed.bf16 import switched_on
from trflm.text import Batch
from trflm.text.word2vec import word2vec


class Potential(Protocol):
    """phi(x; theta), one number a sentence; any finite value is allowed, no normalisation."""

    def __call__(self, batch: Batch, rng: Generator | None = None) -> Tensor:
        """phi_B, differentiable in the parameters. With a generator (training) dropout, if there is any, is drawn from it;
        without one (scoring) there is none."""
        ...

    def contributions(self, batch: Batch, rng: Generator | None = None) -> Tensor:
        """[N] a split of phi over the words: `batch.sum_words(contributions) == phi_B`, with the same dropout if any."""
        ...

    def score(self, batch: Batch) -> Tensor:
        """phi_B without gradient, by the quickest exact way."""
        ...

    def forget(self) -> None:
        """Drop what was kept for the next call. A learner's step begins with it: a kept row may differ in its last bit from
        the same row computed anew, and a continued run is to be the same run."""
        ...

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]: ...

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any: ...


@runtime_checkable
class Layers(Protocol):
    """A module within a potential that can multiply in bf16."""

    train_in_bf16: bool  # the products of training, on a CPU that has instructions for it; never those of `score`


def training_in_bf16(module: nn.Module, wanted: bool) -> AbstractContextManager[None]:
    """Within, the products of training are in bf16, if that is wanted."""
    parts = (part for part in module.modules() if isinstance(part, Layers))
    return switched_on(parts if wanted else (), "train_in_bf16")


class PotentialConfig(Protocol):
    """The section [model] of a random field: a frozen dataclass beside its potential, named in `potentials.POTENTIALS`."""

    @property
    def kind(self) -> str: ...

    def build(self, start: Start) -> Potential:
        """The potential with fresh parameters, or, unless `start.fresh`, with any: a file follows."""
        ...


def start_from_word2vec(embedding: nn.Parameter, start: Start) -> None:
    """Words of the text start from word2vec vectors; other words keep their random start."""
    assert start.text is not None
    words_U, vector_UE = word2vec(start.text, len(embedding), embedding.shape[1], start.seed)
    with torch.no_grad():
        embedding[words_U] = vector_UE
