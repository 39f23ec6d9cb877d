"""One thread for every test: results then do not depend on the machine, and parallel tests do not fight for cores."""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch

from trflm import kernels

torch.set_num_threads(1)


@pytest.fixture(params=[True, False], ids=["compiled", "torch"])
def compiled(request, monkeypatch):
    """Both ways: with the compiled loops, and with torch's operations alone."""
    if not request.param:
        monkeypatch.setattr(kernels, "usable", lambda tensor: False)
    return request.param


@pytest.fixture
def torch_threads():
    """A function that sets torch's number of threads for this test."""
    yield torch.set_num_threads
    torch.set_num_threads(1)
