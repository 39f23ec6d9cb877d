"""trflm: neural trans-dimensional random field language models.

import trflm
lm = trflm.load("runs/ptb-trf")
lm.log_prob(["the market rose", "the market rows"])
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trflm.language_model import LanguageModel

__version__ = "0.1.0"
__all__ = ["load"]


def load(path: "Path | str") -> "LanguageModel":
    """The language model of a run or model directory. torch is imported here, not with the package."""
    from trflm.models import load_model

    return load_model(path)
