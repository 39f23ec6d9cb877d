"""The data of the learners that see sentences in random order: batches of an epoch, shuffled anew for every epoch.

A text in memory is shuffled as a whole. A text on disk (`PackedText`) is shuffled by blocks, and its sentences within windows
of WINDOW_BLOCKS blocks, of which one is in memory at a time:

1. The blocks are put in random order, and their sentences laid end to end.
2. That row is cut into windows of WINDOW_BLOCKS blocks each, but at multiples of the batch size: a batch lies in one window.
3. Each window is shuffled like a text in memory.

A text of one window leaves out step 1: it is shuffled just as if it were in memory.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trflm.learning.shards import Shard
from trflm.seeds import generator
from trflm.text import Batch, PackedText, Text, pack

SPREAD = 3  # words by which the lengths of sentences in a batch of `alike` ones differ, about
WINDOW_BLOCKS = 64


@dataclass(frozen=True)
class Window:
    """Some sentences of the text, in memory."""

    sentences: Batch
    number_B: Tensor | None  # of each sentence in the text; None if it is the whole text
    order: Tensor  # in which they come, batch after batch


class ShuffledBatches:
    """`size` sentences a step, every sentence at most once an epoch; the order is a function of (seed, epoch).

    The sentences that do not fill a batch wait for another epoch. With `alike`, those of a batch are of about one length, as
    recurrent networks have it best; which come together, and in which order the batches come, is as random as before.
    """

    def __init__(self, sentences: Text, size: int, seed: int, alike: bool = False) -> None:
        self.sentences, self.size, self.seed, self.alike = sentences, size, seed, alike
        self.per_epoch = max(len(sentences) // size, 1)
        self._epoch, self._cuts = -1, Cuts.whole(sentences)
        self._at, self._window = (-1, -1), Window(Batch(torch.empty(0), torch.empty(0)), None, torch.empty(0))

    def of_step(self, step: int, shard: Shard | None = None) -> Batch:
        """The batch of step 0, 1, 2, ..., whichever was asked for before, or a shard's slice of it."""
        window, index_B = self._find(step)
        return window.sentences.select(index_B if shard is None else shard.of(index_B))

    def index_of_step(self, step: int, shard: Shard | None = None) -> Tensor:
        """Which sentences of the text they are."""
        window, index_B = self._find(step)
        index_B = index_B if shard is None else shard.of(index_B)
        return index_B if window.number_B is None else window.number_B[index_B]

    def _find(self, step: int) -> tuple[Window, Tensor]:
        """(the window that the batch of a step is in, which of its sentences)."""
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self._epoch and isinstance(self.sentences, PackedText):
            self._cuts = Cuts.shuffled(self.sentences, self.size, generator(self.seed, "order", epoch))
        self._epoch = epoch
        number = self._cuts.window_of(place * self.size)
        if (epoch, number) != self._at:
            self._window = self._read(epoch, number)
            self._at = (epoch, number)
        first = place * self.size - self._cuts.ends[number]
        return self._window, self._window.order[first : first + self.size]

    def _read(self, epoch: int, number: int) -> Window:
        rng = generator(self.seed, "order", epoch) if self._cuts.is_whole else generator(self.seed, "window", epoch, number)
        if isinstance(self.sentences, Batch):
            return Window(self.sentences, None, self._shuffled(self.sentences, rng))
        sentences, number_B = self._cuts.read(self.sentences, number)
        return Window(sentences, None if self._cuts.is_whole else number_B, self._shuffled(sentences, rng))

    def _shuffled(self, sentences: Batch, rng: torch.Generator) -> Tensor:
        order = torch.randperm(len(sentences), generator=rng)
        if not self.alike:
            return order
        used = order[: max(len(sentences) // self.size, 1) * self.size]
        lengths = sentences.lengths_B[used] + SPREAD * torch.rand(len(used), generator=rng)
        batches = used[torch.argsort(lengths)].split(self.size)
        return torch.cat([batches[k] for k in torch.randperm(len(batches), generator=rng).tolist()])


@dataclass(frozen=True)
class Cuts:
    """An order of the blocks of a text, and where the row of their sentences is cut into windows."""

    block_K: np.ndarray
    first_K1: np.ndarray  # of the row: where the sentences of each block begin, and the end
    ends: list[int]  # of the row: where each window begins, and the end

    @classmethod
    def whole(cls, text: Text) -> "Cuts":
        """One window of all, in the order of the text."""
        n_blocks = text.n_blocks if isinstance(text, PackedText) else 1
        first_K1 = text.first_K1 if isinstance(text, PackedText) else np.array([0, len(text)])
        return cls(np.arange(n_blocks), first_K1, [0, len(text)])

    @classmethod
    def shuffled(cls, text: PackedText, size: int, rng: torch.Generator) -> "Cuts":
        if text.n_blocks <= WINDOW_BLOCKS:
            return cls.whole(text)
        block_K = torch.randperm(text.n_blocks, generator=rng).numpy()
        first_K1 = np.concatenate([[0], np.cumsum(text.sentences_K[block_K])])
        inner = np.unique(first_K1[WINDOW_BLOCKS:-1:WINDOW_BLOCKS] // size * size)
        return cls(block_K, first_K1, [0, *inner[(inner > 0) & (inner < len(text) // size * size)].tolist(), len(text)])

    @property
    def is_whole(self) -> bool:
        return len(self.ends) == 2

    def window_of(self, place: int) -> int:
        return int(np.searchsorted(self.ends, place, side="right")) - 1

    def read(self, text: PackedText, number: int) -> tuple[Batch, Tensor]:
        """(the sentences of a window, their numbers in the text)."""
        begin, end = self.ends[number : number + 2]
        parts, numbers = [], []
        for k in range(int(np.searchsorted(self.first_K1, begin, side="right")) - 1, int(np.searchsorted(self.first_K1, end))):
            low, high = max(begin - int(self.first_K1[k]), 0), min(end, int(self.first_K1[k + 1])) - int(self.first_K1[k])
            block = text.block(int(self.block_K[k]))
            words = block.starts_B[low], block.starts_B[high - 1] + block.lengths_B[high - 1]
            parts.append(Batch(block.ids_N[words[0] : words[1]], block.lengths_B[low:high]))
            numbers.append(torch.arange(low, high) + int(text.first_K1[self.block_K[k]]))
        return pack(parts), torch.cat(numbers)
