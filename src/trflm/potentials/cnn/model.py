"""The deep CNN potential phi(x; theta) of the paper (section 3), computed on packed batches without padding.

    y_i   = ReLU(W_p e(x_i) + b_p)                                    embedding and projection
    f_k,i = ReLU(sum_o F_k[o] y_{i+o})        k = 1..K                bank of half convolutions, spliced
    b_i   = max(f_i, f_{i+1})                                         max-pooling, width 2, stride 1
    Y_j,i = ReLU(sum_o S_j[o] Y_{j-1,i+o})    j = 1..n, Y_0 = b       stack of half convolutions
    phi   = lambda . sum_i ReLU(sum_j a_j * Y_j,i) + c

All lines but the last are `network`; how it scores n-best lists quickly is `score`. `plain` is the same in 43 lines.

Shapes: B sentences, N words in all, U distinct words, P (width, offset) pairs of the bank, K widths, w filters a width.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from trflm.kinds import Start
from trflm.potentials.cnn import score
from trflm.potentials.cnn.network import CNNLayers, CNNSize
from trflm.potentials.protocol import start_from_word2vec
from trflm.text import Batch
from trflm.text.batch import pieces


@dataclass(frozen=True)
class CNNConfig(CNNSize):
    """[model] kind = "cnn": a random field with the paper's CNN potential."""

    kind: Literal["cnn"] = "cnn"
    word2vec: bool = False  # start the embedding from word2vec vectors of the training text

    def build(self, start: Start) -> "CNN":
        cnn = CNN(self, len(start.vocab), start.rng)
        if self.word2vec and start.fresh:
            start_from_word2vec(cnn.embedding, start)
        return cnn


class CNN(CNNLayers):
    """phi(x) of a packed batch. See the equations at the head of this file."""

    def __init__(self, config: CNNSize, n_words: int, rng: torch.Generator | None = None) -> None:
        super().__init__(config, n_words)
        self.readout = nn.Parameter(torch.empty(config.stack_filters))  # lambda
        self.constant = nn.Parameter(torch.empty(()))  # c
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -config.init, config.init, generator=rng)

    def forward(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """phi_B."""
        return batch.sum_words(self.contributions(batch, rng))

    def score(self, batch: Batch) -> Tensor:
        """phi_B without gradient, each distinct window computed once."""
        with torch.no_grad():
            return batch.sum_words(self._values(batch, lambda piece: score.features(self, piece))) + self.constant

    def contributions(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """[N] what each position adds to phi; c is shared equally by the words of the sentence."""
        value_N = self._values(batch, lambda piece: self.features_of_rows(piece, rng))
        return value_N + (self.constant / batch.lengths_B)[batch.sentence_N]

    def _values(self, batch: Batch, features: Callable[[Batch], tuple[Tensor, Tensor]]) -> Tensor:
        """[N] lambda . features of each position; a sentence that is too long for one call is read in pieces."""
        values = []
        for piece, own in pieces(batch, self.config.reach):
            h_RS, row_N = features(piece)
            values.append((h_RS @ self.readout).index_select(0, row_N[own]))
        return values[0] if len(values) == 1 else torch.cat(values)
