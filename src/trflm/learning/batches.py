"""The data of the learners that see sentences in random order: batches of an epoch, shuffled anew for every epoch."""

import torch
from torch import Tensor

from trflm.seeds import generator
from trflm.text import Batch

SPREAD = 3  # words by which the lengths of sentences in a batch of `alike` ones differ, about


class ShuffledBatches:
    """`size` sentences a step, every sentence at most once an epoch; the order is a function of (seed, epoch).

    The sentences that do not fill a batch wait for another epoch. With `alike`, those of a batch are of about one length, as
    recurrent networks have it best; which come together, and in which order the batches come, is as random as before.
    """

    def __init__(self, sentences: Batch, size: int, seed: int, alike: bool = False) -> None:
        self.sentences, self.size, self.seed, self.alike = sentences, size, seed, alike
        self.per_epoch = max(len(sentences) // size, 1)
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.int64)

    def of_step(self, step: int) -> Batch:
        """The batch of step 0, 1, 2, ..., whichever was asked for before."""
        return self.sentences.select(self.index_of_step(step))

    def index_of_step(self, step: int) -> Tensor:
        """Which sentences they are."""
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = self._shuffled(generator(self.seed, "order", epoch))
        return self._order[place * self.size : (place + 1) * self.size]

    def _shuffled(self, rng: torch.Generator) -> Tensor:
        order = torch.randperm(len(self.sentences), generator=rng)
        if not self.alike:
            return order
        used = order[: self.per_epoch * self.size]
        lengths = self.sentences.lengths_B[used] + SPREAD * torch.rand(len(used), generator=rng)
        batches = used[torch.argsort(lengths)].split(self.size)
        return torch.cat([batches[k] for k in torch.randperm(len(batches), generator=rng).tolist()])
