"""Which tuples of numbers are equal: a number for each distinct tuple, and a place where it occurs.

One pass with a hash table (`distinct_loops`). Where that cannot be used, by sorting (torch.unique): several times slower,
the same but for the order of the numbers. A tuple is written as one number in base b, and those are compared, so nothing is
ever mixed up.

Shapes: M tuples, D distinct ones.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from trflm.speed import compiled

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
    if not compiled.usable(columns[0]):
        return distinct_by_sorting(columns, base)
    from trflm.speed.distinct_loops import number_tuples

    n_tuples = len(columns[0])
    number_M, place_M = torch.empty(n_tuples, dtype=torch.int32), torch.empty(n_tuples, dtype=torch.int32)
    count = number_tuples(tuple(column_M.numpy() for column_M in columns), base, number_M.numpy(), place_M.numpy())
    return number_M, place_M[:count]


def distinct_by_sorting(columns: Sequence[Tensor], base: int) -> tuple[Tensor, Tensor]:
    key_M = columns[0].long()
    for column_M in columns[1:]:
        key_M = key_M * base + column_M
    keys_D, number_M = torch.unique(key_M, return_inverse=True)
    place_D = torch.empty_like(keys_D, dtype=torch.int32)
    place_D[number_M] = torch.arange(len(key_M), dtype=torch.int32, device=key_M.device)
    return number_M.int(), place_D
