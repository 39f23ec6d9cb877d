"""The ways of estimating log Z_l, each a configuration that builds it."""

from typing import get_args, get_type_hints

from trflm.sampling.ais import AISConfig
from trflm.sampling.importance import ImportanceConfig
from trflm.sampling.smc import SMCConfig

EstimatorConfig = SMCConfig | AISConfig | ImportanceConfig
ESTIMATORS = (SMCConfig, AISConfig, ImportanceConfig)


def by_kind(kind: str) -> EstimatorConfig:
    """The one of this name, as it comes."""
    return {get_args(get_type_hints(config)["kind"])[0]: config for config in ESTIMATORS}[kind]()
