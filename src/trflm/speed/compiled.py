"""Inner loops that torch has no operation for, compiled by numba to machine code.

Each lies in a `*_loops.py` beside the function that uses it, which has the same thing in torch operations: for GPUs, and for
platforms that numba has no wheels for. Tests hold the two against each other. Importing numba takes half a second, so the
modules with loops are imported when they are first needed.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from torch import Tensor

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be taken in any order and products fused into them, so that loops become vector instructions; infinities and NaN
# keep their meaning. Nor is it asked at every quotient whether its divisor is zero (`error_model`).
FAST = {"reassoc", "contract", "nsz", "arcp"}


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


def compiled(function: F) -> F:
    """The function as machine code, made at its first call and kept on disk beside the source, or in the user's cache. It runs
    without Python's lock. What is kept is made anew when the function's own file changes, so the functions it calls are to be
    in that file."""
    import numba

    from trflm.speed.machine_code import check_what_is_kept

    options: dict[str, Any] = {"nogil": True, "fastmath": FAST, "error_model": "numpy"}
    try:
        made = numba.njit(function, cache=True, **options)
    except RuntimeError:  # neither can be written
        return cast("F", numba.njit(function, **options))
    check_what_is_kept(made)
    return cast("F", made)
