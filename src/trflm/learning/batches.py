"""The data of the learners that see sentences in random order: batches of an epoch, shuffled anew for every epoch."""

import torch

from trflm.seeds import generator
from trflm.text import Batch


class ShuffledBatches:
    """`size` sentences a step, every sentence at most once an epoch; the order is a function of (seed, epoch).

    The sentences that do not fill a batch wait for another epoch.
    """

    def __init__(self, sentences: Batch, size: int, seed: int) -> None:
        self.sentences, self.size, self.seed = sentences, size, seed
        self.per_epoch = max(len(sentences) // size, 1)
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.int64)

    def of_step(self, step: int) -> Batch:
        """The batch of step 0, 1, 2, ..., whichever was asked for before."""
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = torch.randperm(len(self.sentences), generator=generator(self.seed, "order", epoch))
        return self.sentences.select(self._order[place * self.size : (place + 1) * self.size])
