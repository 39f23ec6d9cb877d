"""The ways of estimating log Z_l, by name. A new one is a file with its configuration, and a line here."""

from typing import get_args, get_type_hints

from trflm.errors import InputError
from trflm.sampling.ais import AISConfig
from trflm.sampling.estimator import EstimatorConfig
from trflm.sampling.importance import ImportanceConfig
from trflm.sampling.smc import SMCConfig

ESTIMATORS = (
    SMCConfig,
    AISConfig,
    ImportanceConfig,
)


def by_kind(kind: str, option: str = "--method") -> EstimatorConfig:
    """The one of this name, as it comes; `option` is what the user gave the name by."""
    known = {get_args(get_type_hints(config)["kind"])[0]: config for config in ESTIMATORS}
    if kind not in known:
        raise InputError(f"{option} {kind}: give one of {', '.join(known)}")
    return known[kind]()
