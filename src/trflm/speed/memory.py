"""Keep freed memory in the process.

glibc hands large blocks back to the kernel when they are freed and faults every page in again when the next tensor of
that size is made. A training step makes dozens of 50 MB tensors, so this costs more than the arithmetic between them.
"""

import ctypes

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4  # from malloc.h


def keep_freed_memory() -> bool:
    """Tell malloc to reuse large blocks instead of returning them to the kernel; False where there is no mallopt."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, 2**31 - 1) and mallopt(M_TOP_PAD, 64 << 20))
