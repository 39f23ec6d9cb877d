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
from trflm.learning.shards import Shard
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
        self._blocks: dict[int, tuple[int, Batch]] = {}  # of a shard: the number of the block, and its draws

    def of_step(self, step: int, shard: Shard | None = None) -> Batch:
        """The sentences of step 0, 1, 2, ..., whichever was asked for before; a shard draws its own."""
        block, place = divmod(step, BLOCK)
        number, size = (0, self.size) if shard is None else (shard.number, len(shard.span(self.size)))
        if number not in self._blocks or self._blocks[number][0] != block:
            rng = (shard.generator if shard else generator)(self.seed, "noise", block)
            self._blocks[number] = block, self._drawn(size, rng)
        draws = self._blocks[number][1]
        return draws.select(torch.arange(place * size, (place + 1) * size) % len(draws))

    def _drawn(self, size: int, rng: torch.Generator) -> Batch:
        """The draws of a block, shuffled once for each use."""
        different = self.model.draw(-(-BLOCK * size // self.uses), rng)
        short = (different.lengths_B <= self.max_length).nonzero().squeeze(1)
        return different.select(torch.cat([short[torch.randperm(len(short), generator=rng)] for _ in range(self.uses)])).long()


@dataclass(frozen=True)
class TextAndDraws:
    """The batches of a text, if there is one, with drawn sentences after them."""

    text: ShuffledBatches | None
    draws: Draws
    per_epoch: int

    def of_step(self, step: int, shard: Shard | None = None) -> Batch:
        drawn = self.draws.of_step(step, shard)
        return pack([self.text.of_step(step, shard).long(), drawn]) if self.text else drawn
