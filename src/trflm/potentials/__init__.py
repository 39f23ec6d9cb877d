"""Potentials phi(x). A new one is a file with its configuration, and a line here."""

from trflm.potentials.blstm import BLSTMConfig
from trflm.potentials.cnn.model import CNNConfig
from trflm.potentials.cnn_blstm import CNNBLSTMConfig
from trflm.potentials.discrete import DiscreteConfig
from trflm.potentials.mixed import MixedConfig

POTENTIALS = (
    CNNConfig,
    BLSTMConfig,
    CNNBLSTMConfig,
    DiscreteConfig,
    MixedConfig,
)
