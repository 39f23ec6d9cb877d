"""trflm: neural trans-dimensional random field language models.

    import trflm
    lm = trflm.load("runs/ptb-trf")
    lm.log_prob(["the market rose", "the market rows"])
    trflm.rescore(trflm.read_nbest("nbest.txt", acoustic="ac.txt"), {lm: 0.7}).best()

torch is imported when one of these is first used, not with the package.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trflm.evaluation.formats import read_nbest
    from trflm.evaluation.perplexity import perplexity
    from trflm.evaluation.second_pass.combine import rescore
    from trflm.experiment.store import load_model as load

__version__ = "0.1.0"
__all__ = ["load", "perplexity", "read_nbest", "rescore"]

WHERE = {
    "load": ("trflm.experiment.store", "load_model"),
    "perplexity": ("trflm.evaluation.perplexity", "perplexity"),
    "read_nbest": ("trflm.evaluation.formats", "read_nbest"),
    "rescore": ("trflm.evaluation.second_pass.combine", "rescore"),
}


def __getattr__(name: str) -> Any:
    if name not in WHERE:
        raise AttributeError(f"module 'trflm' has no attribute {name!r}")
    module, function = WHERE[name]
    return getattr(importlib.import_module(module), function)
