"""CNN + BLSTM (Wang and Ou 2018): the bidirectional LSTM of `blstm` reads the features of the CNN of `cnn` at every position.

    f_t = LSTM(f_{t-1}, y_t),  b_t = LSTM(b_{t+1}, y_t),   y_t = ReLU(sum_j a_j * Y_j,t) of the CNN over x_0 .. x_{l+1}

The products and the biases are those of `blstm`; e is the CNN's embedding. The markers x_0 and x_{l+1} are words of the CNN. A
state that is multiplied with e(x_t) has seen x_t through the CNN's window: an energy may, it predicts nothing.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from trflm.kinds import Start
from trflm.potentials.blstm import BLSTM, BLSTMConfig
from trflm.potentials.cnn import score
from trflm.potentials.cnn.network import CNNLayers, CNNSize
from trflm.potentials.protocol import start_from_word2vec
from trflm.ranges import Layers, Size
from trflm.text import Batch


@dataclass(frozen=True)
class CNNBLSTMConfig(CNNSize):
    """[model] kind = "cnn-blstm": the dimensions of the CNN and of the LSTMs.

    Dropout is where the CNN has it and where the BLSTM has it.
    """

    units: Size = 200  # of the LSTM of each direction
    layers: Layers = 1  # of each direction
    kind: Literal["cnn-blstm"] = "cnn-blstm"
    word2vec: bool = False  # start the embedding from word2vec vectors of the training text

    def __post_init__(self) -> None:
        super().__post_init__()
        self.blstm()  # it checks its own dimensions

    def blstm(self) -> BLSTMConfig:
        return BLSTMConfig(self.embedding, self.units, self.layers, self.dropout, self.init)

    def build(self, start: Start) -> BLSTM:
        blstm = cnn_blstm(self, len(start.vocab), start.rng)
        if self.word2vec and start.fresh:
            start_from_word2vec(blstm.embedding, start)
        return blstm


class CNNInputs(CNNLayers):
    """The features of the CNN as what the LSTMs read."""

    def __init__(self, config: CNNSize, n_symbols: int) -> None:
        super().__init__(config, n_symbols)
        self.width = config.stack_filters

    def rows(self, marked: Batch, rng: Generator | None) -> tuple[Tensor, Tensor]:
        return self.features(marked, rng), torch.arange(marked.n_words, device=marked.device)

    def distinct_rows(self, marked: Batch) -> tuple[Tensor, Tensor]:
        """Windows of words take the place of words: sentences share a prefix if their windows up to it are the same."""
        return score.features(self, marked)


def cnn_blstm(config: CNNBLSTMConfig, n_words: int, rng: Generator | None = None) -> BLSTM:
    return BLSTM(config.blstm(), n_words, rng, CNNInputs(config, n_words + 2))
