"""Sentences for a step that are drawn from a model, alone or beside some of the text.

A text is soon known by heart; a model that can be drawn from has no end of sentences. Whoever learns what other models say of
sentences (`distil`) needs no real ones: drawn ones are as good, and a student that has seen more of them is nearer to its
teachers on text that none of them has seen.

Sentences are drawn for BLOCK steps at once, as a function of the seed and the number of the block. Drawing is slow beside
learning, so each is given `uses` times, always in other company.
"""

from dataclasses import dataclass
from typing import Protocol

import torch

from trflm.learning.batches import ShuffledBatches
from trflm.seeds import generator
from trflm.text import Batch, pack

BLOCK = 32


class Drawable(Protocol):
    """A left-to-right model."""

    def draw(self, n: int, rng: torch.Generator, /) -> Batch: ...


class Draws:
    """`size` sentences a step, none above `max_length`."""

    def __init__(self, model: Drawable, size: int, uses: int, max_length: int, seed: int) -> None:
        self.model, self.size, self.uses, self.max_length, self.seed = model, size, uses, max_length, seed
        self._block, self._draws = -1, Batch(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64))

    def of_step(self, step: int) -> Batch:
        """The sentences of step 0, 1, 2, ..., whichever was asked for before."""
        block, place = divmod(step, BLOCK)
        if block != self._block:
            self._block, self._draws = block, self._drawn(generator(self.seed, "noise", block))
        return self._draws.select(torch.arange(place * self.size, (place + 1) * self.size) % len(self._draws))

    def _drawn(self, rng: torch.Generator) -> Batch:
        """The draws of a block, shuffled once for each use."""
        different = self.model.draw(-(-BLOCK * self.size // self.uses), rng)
        short = (different.lengths_B <= self.max_length).nonzero().squeeze(1)
        return different.select(torch.cat([short[torch.randperm(len(short), generator=rng)] for _ in range(self.uses)])).long()


@dataclass(frozen=True)
class TextAndDraws:
    """The batches of a text, if there is one, with drawn sentences after them."""

    text: ShuffledBatches | None
    draws: Draws
    per_epoch: int

    def of_step(self, step: int) -> Batch:
        drawn = self.draws.of_step(step)
        return pack([self.text.of_step(step).long(), drawn]) if self.text else drawn
