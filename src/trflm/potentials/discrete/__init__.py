"""The discrete (log-linear) potential: patterns, the features of a text that have them, and phi, the sum of their weights."""

from trflm.potentials.discrete.counting import count_features
from trflm.potentials.discrete.features import Alphabet, Features
from trflm.potentials.discrete.potential import Discrete, DiscreteConfig

__all__ = ["Alphabet", "Discrete", "DiscreteConfig", "Features", "count_features"]
