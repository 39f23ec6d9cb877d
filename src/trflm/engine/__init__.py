"""The fast scorer: sentences through all snapshots of a field at once, equal to the plain model within 1e-4."""

from trflm.engine.engine import Engine

__all__ = ["Engine"]
