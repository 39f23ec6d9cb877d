import pytest
import torch
from harness import rng

from trflm.potentials import distinct as module
from trflm.potentials.distinct import distinct, distinct_by_sorting


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


def test_tuples_beyond_64_bits_are_folded():
    """Five numbers below 2^31 - 1: 155 bits. The low 62 bits alone would mix up tuples that differ in their first numbers."""
    base = 2**31 - 1
    columns = [torch.randint(base - 1, (40,), generator=rng(i), dtype=torch.int32).repeat(3) for i in range(5)]
    columns[0][:40] += 1  # the tuples of the first third differ from the others in the first number
    check(columns, *distinct(columns, base))


def test_keys_that_fall_into_one_slot_are_told_apart():
    """Multiples of 2^k collide in most hash functions; here every table is half full at least."""
    columns = [torch.arange(4096, dtype=torch.int32) * 2**19 % (2**31 - 1)]
    number_M, place_D = distinct(columns, 1)
    check(columns, number_M, place_D)


def test_without_numba_the_rest_works_the_same(monkeypatch):
    columns = [torch.randint(7, (200,), generator=rng(i), dtype=torch.int32) for i in range(2)]
    expected = distinct(columns, 7)
    monkeypatch.setattr(module, "numba", None)
    number_M, place_D = distinct(columns, 7)
    check(columns, number_M, place_D)
    assert len(place_D) == len(expected[1])
