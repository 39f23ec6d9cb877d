"""One thread for every test: results then do not depend on the machine, and parallel tests do not fight for cores. Hypothesis
measures no times, and draws the same examples everywhere.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch
from hypothesis import HealthCheck, settings

from trflm.speed import compiled as loops

torch.set_num_threads(1)
settings.register_profile("any machine", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture
def numba():
    """For tests of the compiled loops themselves; without numba nothing else is skipped."""
    return pytest.importorskip("numba")


@pytest.fixture(params=[True, False], ids=["compiled", "torch"])
def compiled(request, monkeypatch):
    """Both ways: with the compiled loops, and with torch's operations alone."""
    if request.param:
        pytest.importorskip("numba")
    else:
        monkeypatch.setattr(loops, "usable", lambda tensor: False)
    return request.param


@pytest.fixture
def torch_threads():
    """A function that sets torch's number of threads for this test."""
    yield torch.set_num_threads
    torch.set_num_threads(1)
