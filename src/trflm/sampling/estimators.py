"""The ways of estimating log Z_l, each a configuration that builds it."""

from trflm.sampling.ais import AISConfig
from trflm.sampling.importance import ImportanceConfig
from trflm.sampling.smc import SMCConfig

EstimatorConfig = SMCConfig | AISConfig | ImportanceConfig
ESTIMATORS = (SMCConfig, AISConfig, ImportanceConfig)
