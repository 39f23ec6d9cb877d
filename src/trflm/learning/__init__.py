"""Learners. A new one is a file with its configuration, and a line here."""

from trflm.learning.augsa import AugSAConfig
from trflm.learning.cloze import ClozeConfig
from trflm.learning.distil import DistilConfig
from trflm.learning.dnce import DNCEConfig
from trflm.learning.lstm import AdamConfig, SGDConfig
from trflm.learning.nce import NCEConfig
from trflm.learning.word_choice import WordChoiceConfig
from trflm.learning.word_nce import WordNCEConfig

FIELD_LEARNERS = (
    AugSAConfig,
    NCEConfig,
    DNCEConfig,
    WordNCEConfig,
    ClozeConfig,
    DistilConfig,
    WordChoiceConfig,
)
LSTM_LEARNERS = (
    SGDConfig,
    AdamConfig,
)
