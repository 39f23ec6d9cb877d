"""Which tuples of numbers are equal: a number for each distinct tuple, and a place where it occurs.

One pass with a hash table, compiled by numba: about 5 ns a tuple. Where numba is not installed, or the numbers are on a GPU, by
sorting (torch.unique): several times slower, the same but for the order of the numbers. A tuple is written as one number in
base b, and those are compared, so nothing is ever mixed up.

Shapes: M tuples, D distinct ones.
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

MULTIPLIER = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: spreads neighbouring keys over the high bits
LARGEST_KEY = 2**62


def distinct(columns: Sequence[Tensor], base: int) -> tuple[Tensor, Tensor]:
    """([M] the number of each tuple among the distinct ones, [D] a place of each), int32.

    The tuple m is (columns[0][m], columns[1][m], ...), int32; all but the first number are below `base`, and so is the first
    if there are more than two.
    """
    columns = list(columns)
    while len(columns) > 2 and base ** len(columns) > LARGEST_KEY:  # too long for a key: the first two become one
        pair_M, place_D = distinct(columns[:2], base)
        columns, base = [pair_M, *columns[2:]], max(base, len(place_D))
    fill = compiled()
    if fill is None or columns[0].device.type != "cpu":
        return distinct_by_sorting(columns, base)
    n_tuples = len(columns[0])
    number_M, place_M = torch.empty(n_tuples, dtype=torch.int32), torch.empty(n_tuples, dtype=torch.int32)
    count = fill(tuple(column_M.numpy() for column_M in columns), base, number_M.numpy(), place_M.numpy())
    return number_M, place_M[:count]


def distinct_by_sorting(columns: Sequence[Tensor], base: int) -> tuple[Tensor, Tensor]:
    key_M = columns[0].long()
    for column_M in columns[1:]:
        key_M = key_M * base + column_M
    keys_D, number_M = torch.unique(key_M, return_inverse=True)
    place_D = torch.empty_like(keys_D, dtype=torch.int32)
    place_D[number_M] = torch.arange(len(key_M), dtype=torch.int32, device=key_M.device)
    return number_M.int(), place_D


def fill_distinct(columns: tuple[np.ndarray, ...], base: int, number_M: np.ndarray, place_M: np.ndarray) -> int:
    """Distinct tuples are numbered in order of appearance; returns how many there are."""
    size, shift = 16, 60
    while size < 2 * len(number_M):
        size, shift = size * 2, shift - 1
    slots = np.full(size, -1, np.int32)  # open addressing: the number of the key that lives here
    keys = np.empty(len(number_M), np.int64)
    count = 0
    for m in range(len(number_M)):
        key = np.int64(0)
        for column_M in columns:
            key = key * base + column_M[m]
        slot = np.int64((np.uint64(key) * np.uint64(MULTIPLIER)) >> np.uint64(shift))
        while True:
            number = slots[slot]
            if number < 0:
                number = count
                slots[slot], keys[count], place_M[count] = count, key, m
                count += 1
                break
            if keys[number] == key:
                break
            slot = (slot + 1) & (size - 1)
        number_M[m] = number
    return count


@functools.cache
def compiled() -> Callable[..., int] | None:
    """`fill_distinct` compiled, or None on a platform that numba has no wheels for. Importing numba takes half a second."""
    try:
        import numba
    except ImportError:
        return None
    try:  # kept on disk beside the source, or in the user's cache: compiled once a machine
        return numba.njit(fill_distinct, cache=True, nogil=True)
    except RuntimeError:  # neither can be written
        return numba.njit(fill_distinct, nogil=True)
