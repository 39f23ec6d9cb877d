"""How the loops are compiled."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be taken in any order and products fused into them, so that loops become vector instructions; infinities and NaN
# keep their meaning. Nor is it asked at every quotient whether its divisor is zero (`error_model`).
FAST = {"reassoc", "contract", "nsz", "arcp"}


def compiled(function: F) -> F:
    """The function as machine code, made at its first call and kept on disk beside the source, or in the user's cache. It runs
    without Python's lock. What is kept is made anew when the function's own file changes, so the functions it calls are to be
    in that file."""
    options: dict[str, Any] = {"nogil": True, "fastmath": FAST, "error_model": "numpy"}
    try:
        return cast("F", numba.njit(function, cache=True, **options))
    except RuntimeError:  # neither can be written
        return cast("F", numba.njit(function, **options))
