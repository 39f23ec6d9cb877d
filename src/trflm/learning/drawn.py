"""Sentences for a step, some of the text and some drawn from a model.

A text is soon known by heart; a model that can be drawn from has no end of sentences. Whoever learns what other models say of
sentences (`distil`) needs no real ones: drawn ones are as good, and a student that has seen more of them is nearer to its
teachers on text that none of them has seen.

Sentences are drawn for BLOCK steps at once, as a function of the seed and the number of the block. Drawing is slow beside
learning, so each is given `uses` times, always in other company.
"""

from typing import Protocol

import torch

from trflm.learning.batches import ShuffledBatches
from trflm.seeds import generator
from trflm.text import Batch, pack

BLOCK = 32


class Drawable(Protocol):
    """A left-to-right model."""

    def draw(self, n: int, rng: torch.Generator) -> Batch: ...


class TextAndDraws:
    """The batches of a text with `drawn` more sentences in each, none above `max_length`."""

    def __init__(self, batches: ShuffledBatches, model: Drawable, drawn: int, uses: int, max_length: int) -> None:
        self.batches, self.model, self.drawn, self.uses, self.max_length = batches, model, drawn, uses, max_length
        self.per_epoch = batches.per_epoch
        self._block, self._draws = -1, Batch(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64))

    def of_step(self, step: int) -> Batch:
        """The sentences of step 0, 1, 2, ..., whichever was asked for before."""
        block, place = divmod(step, BLOCK)
        if block != self._block:
            self._block, self._draws = block, self._drawn_for(generator(self.batches.seed, "noise", block))
        at = torch.arange(place * self.drawn, (place + 1) * self.drawn) % len(self._draws)
        return pack([self.batches.of_step(step).long(), self._draws.select(at)])

    def _drawn_for(self, rng: torch.Generator) -> Batch:
        """The draws of a block, shuffled once for each use."""
        different = self.model.draw(-(-BLOCK * self.drawn // self.uses), rng)
        short = (different.lengths_B <= self.max_length).nonzero().squeeze(1)
        order = torch.cat([short[torch.randperm(len(short), generator=rng)] for _ in range(self.uses)])
        return different.select(order).long()
