"""trflm: neural trans-dimensional random field language models.

    import trflm
    lm = trflm.load("runs/ptb-trf")
    lm.log_prob(["the market rose", "the market rows"])
    r = trflm.Rescorer.load("second-pass")
    r(["the market rose", "the market rows"], acoustic=[-310.2, -309.9]).best

torch is imported when one of these is first used, not with the package. docs/api.md describes them all.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trflm.api import train, tune, word_errors
    from trflm.deploy.rescorer import Rescorer
    from trflm.evaluation.formats import read_nbest
    from trflm.evaluation.perplexity import perplexity
    from trflm.evaluation.second_pass.combine import rescore
    from trflm.experiment.store import load_model as load

__version__ = "0.1.0"
__all__ = ["Rescorer", "load", "perplexity", "read_nbest", "rescore", "train", "tune", "word_errors"]

WHERE = {
    "Rescorer": ("trflm.deploy.rescorer", "Rescorer"),
    "load": ("trflm.experiment.store", "load_model"),
    "perplexity": ("trflm.evaluation.perplexity", "perplexity"),
    "read_nbest": ("trflm.evaluation.formats", "read_nbest"),
    "rescore": ("trflm.evaluation.second_pass.combine", "rescore"),
    "train": ("trflm.api", "train"),
    "tune": ("trflm.api", "tune"),
    "word_errors": ("trflm.api", "word_errors"),
}


def __getattr__(name: str) -> Any:
    if name not in WHERE:
        raise AttributeError(f"module 'trflm' has no attribute {name!r}")
    module, function = WHERE[name]
    return getattr(importlib.import_module(module), function)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
