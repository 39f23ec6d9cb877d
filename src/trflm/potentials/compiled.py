"""numba, where it is installed: `compiled` marks a function that is worth compiling and has a slower twin in torch.

Compiled code is kept on disk beside the source (or in the user's cache), so it is compiled once a machine.
"""

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable)

try:
    import numba
except ImportError:  # a platform without numba's wheels
    numba = None

HAS_NUMBA = numba is not None


def compiled(function: Function) -> Function:
    """The function, compiled; it runs without the interpreter's lock, so that threads run side by side."""
    if numba is None:
        return function
    return numba.njit(function, cache=True, nogil=True, fastmath={"contract"})
