"""Inner loops that torch has no operation for, compiled by numba to machine code.

Each is used through a function elsewhere that has the same thing in torch operations beside it: for GPUs, and for platforms
that numba has no wheels for. Tests hold the two against each other. Importing numba takes half a second, so the modules here
are imported when they are first needed.
"""

import functools

from torch import Tensor


def usable(tensor: Tensor) -> bool:
    """Whether the compiled loops can be used on tensors like this one."""
    return tensor.device.type == "cpu" and numba_is_there()


@functools.cache
def numba_is_there() -> bool:
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True
