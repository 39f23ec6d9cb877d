"""Keep freed memory in the process, and how much there is.

glibc hands large blocks back to the kernel when they are freed and faults every page in again when the next tensor of
that size is made. A training step makes dozens of 50 MB tensors, so this costs more than the arithmetic between them.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4  # from malloc.h
KEPT: set[bool] = set()  # whether `keep_freed_memory` was called


def keep_freed_memory() -> bool:
    """Tell malloc to reuse large blocks instead of returning them to the kernel; False where there is no mallopt."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    KEPT.add(True)
    return bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, 2**31 - 1) and mallopt(M_TOP_PAD, 64 << 20))


@contextmanager
def returning_freed_memory() -> Iterator[None]:
    """Within, freed blocks of 128 KB and more go back to the kernel, as they do if nobody asks for anything else: of arrays of
    hundreds of megabytes, each of another size, those that were kept would add up."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        yield
        return
    for parameter, value in ((M_TRIM_THRESHOLD, 128 << 10), (M_TOP_PAD, 128 << 10), (M_MMAP_MAX, 1 << 16)):
        mallopt(parameter, value)
    try:
        yield
    finally:
        if KEPT:
            keep_freed_memory()


def available_memory() -> int:
    """Bytes that this process may still take without swapping, as far as the system tells (Linux: its control group, too)."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    try:
        most, used = (Path(f"/sys/fs/cgroup/memory.{name}").read_text().strip() for name in ("max", "current"))
        return min(free, max(int(most) - int(used), 0))
    except (OSError, ValueError):  # no such group, or one without a limit
        return free
