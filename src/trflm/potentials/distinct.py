"""Which keys of an array are equal: a number for each distinct key, and a place where it occurs.

One pass with a hash table, compiled by numba: about 5 ns a key. Where numba is not installed, or the keys are on a GPU, by sorting
(torch.unique): several times slower, the same but for the order of the numbers. Keys are compared themselves, so nothing is
ever mixed up.

Shapes: M keys, D distinct ones.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from trflm.potentials.compiled import HAS_NUMBA, compiled

MULTIPLIER = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: spreads neighbouring keys over the high bits
KEY_LIMIT = 2**62


def distinct(key_M: Tensor) -> tuple[Tensor, Tensor]:
    """([M] the number of each key among the distinct ones, [D] a place of each), int64."""
    if not HAS_NUMBA or key_M.device.type != "cpu":
        return distinct_by_sorting(key_M)
    number_M, place_M = np.empty(len(key_M), np.int64), np.empty(len(key_M), np.int64)
    count = fill_distinct(key_M.numpy(), number_M, place_M)
    return torch.from_numpy(number_M), torch.from_numpy(place_M[:count].copy())


def distinct_by_sorting(key_M: Tensor) -> tuple[Tensor, Tensor]:
    keys_D, number_M = torch.unique(key_M, return_inverse=True)
    place_D = torch.empty_like(keys_D)
    place_D[number_M] = torch.arange(len(key_M), device=key_M.device)
    return number_M, place_D


@compiled
def fill_distinct(key_M: np.ndarray, number_M: np.ndarray, place_M: np.ndarray) -> int:
    """Distinct keys are numbered in order of appearance; returns how many there are."""
    size, shift = 16, 60
    while size < 2 * len(key_M):
        size, shift = size * 2, shift - 1
    slots = np.full(size, -1, np.int32)  # open addressing: the number of the key that lives here
    keys = np.empty(len(key_M), np.int64)
    count = 0
    for m in range(len(key_M)):
        key = key_M[m]
        slot = np.int64((np.uint64(key) * np.uint64(MULTIPLIER)) >> np.uint64(shift))
        while True:
            number = slots[slot]
            if number < 0:
                slots[slot], keys[count], place_M[count] = count, key, m
                number = count
                count += 1
                break
            if keys[number] == key:
                break
            slot = (slot + 1) & (size - 1)
        number_M[m] = number
    return count


def distinct_tuples(columns: Sequence[Tensor], size: int) -> tuple[Tensor, Tensor]:
    """`distinct` for tuples of numbers 0 .. size - 1, one column each: written as one number in base `size`, in several steps
    where it would not fit into 64 bits."""
    key_M, limit = columns[0], size
    for column_M in columns[1:]:
        if limit * size > KEY_LIMIT:
            key_M, place_D = distinct(key_M)
            limit = len(place_D)
        key_M, limit = key_M * size + column_M, limit * size
    return distinct(key_M)
