import pytest
import torch
from harness import rng

from trflm.speed.distinct import distinct, distinct_by_sorting


def check(columns, number_M, place_D):
    """Equal tuples have equal numbers, different ones different numbers, and every number's place has its tuple."""
    tuples = list(zip(*(column.tolist() for column in columns), strict=True))
    assert len(place_D) == len(set(tuples))
    assert [tuples[place_D[number]] for number in number_M.tolist()] == tuples


@pytest.mark.parametrize(
    ("n_columns", "size", "n_tuples"), [(1, 50, 300), (2, 9, 300), (3, 4, 300), (4, 3, 1), (2, 40_000, 5000)]
)
def test_equal_tuples_get_one_number(n_columns, size, n_tuples):
    columns = [torch.randint(size, (n_tuples,), generator=rng(i), dtype=torch.int32) for i in range(n_columns)]
    for found in (distinct(columns, size), distinct_by_sorting(columns, size)):
        check(columns, *found)


def test_tuples_beyond_64_bits_are_folded(compiled):
    """Three numbers below 2^22: 66 bits. In 64 of them (2^20, a, b) and (0, a, b) would be one key."""
    base = 2**22
    columns = [torch.randint(base, (40,), generator=rng(i), dtype=torch.int32).repeat(2) for i in range(3)]
    columns[0] = torch.tensor([0, 2**20], dtype=torch.int32).repeat_interleave(40)
    check(columns, *distinct(columns, base))


def test_keys_that_fall_into_one_slot_are_told_apart():
    """Multiples of 2^k collide in most hash functions; here every table is half full at least."""
    columns = [torch.arange(4096, dtype=torch.int32) * 2**19 % (2**31 - 1)]
    number_M, place_D = distinct(columns, 1)
    check(columns, number_M, place_D)


@pytest.mark.usefixtures("numba")
def test_the_table_grows_when_there_are_more_keys_than_expected():
    from trflm.speed.distinct_loops import number_keys

    keys, number_M, place_M = torch.randint(3000, (5000,), generator=rng()), *torch.zeros(2, 5000, dtype=torch.int32)
    count = number_keys(keys.numpy(), torch.arange(5000).numpy(), 1, number_M.numpy(), place_M.numpy())
    check([keys], number_M, place_M[:count])
