"""Sums and maxima of gathered rows, each in one pass over memory: compiled by numba, or by torch where there is none.

The compiled ones are written for rows start .. stop - 1, so that as many threads as torch may use share the rows.

Shapes: D rows that are made, R rows that are read, C channels, p and s rows read for each.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trflm.potentials.compiled import HAS_NUMBA, compiled

FEWEST_ROWS = 500  # for a thread of its own


def pool_rows(rows_RC: Tensor, reads_Dp: Tensor) -> Tensor:
    """[D, C] ReLU of the maximum of the rows read."""
    if not _usable(rows_RC):
        pooled_DC = rows_RC[reads_Dp[:, 0]]
        for read_D in reads_Dp.T[1:]:
            pooled_DC = torch.maximum(pooled_DC, rows_RC[read_D])
        return pooled_DC.relu_()
    out_DC = rows_RC.new_empty(len(reads_Dp), rows_RC.shape[1])
    _share(fill_pooled, len(out_DC), rows_RC.numpy(), reads_Dp.numpy(), out_DC.numpy())
    return out_DC


def stack_rows(z_RC: Tensor, reads_Ds: Tensor, a_C: Tensor, total_RC: Tensor | None, inner_D: Tensor) -> tuple[Tensor, Tensor]:
    """([D, C] y = ReLU of the sum of the rows read, [D, C] a * y + the total of the layers below at row `inner`)."""
    if not _usable(z_RC):
        y_DC = F.embedding_bag(reads_Ds, z_RC, mode="sum").relu_()
        return y_DC, a_C * y_DC if total_RC is None else torch.addcmul(total_RC[inner_D], a_C, y_DC)
    y_DC, out_DC = (z_RC.new_empty(len(reads_Ds), z_RC.shape[1]) for _ in range(2))
    if total_RC is None:
        total_RC, inner_D = z_RC.new_zeros(1, len(a_C)), torch.zeros_like(inner_D)
    arrays = (z_RC, reads_Ds, a_C, total_RC, inner_D, y_DC, out_DC)
    _share(fill_stacked, len(y_DC), *(array.numpy() for array in arrays))
    return y_DC, out_DC


@compiled
def fill_pooled(start: int, stop: int, rows_RC: np.ndarray, reads_Dp: np.ndarray, out_DC: np.ndarray) -> None:
    for d in range(start, stop):
        out = out_DC[d]
        out[:] = 0
        for read in reads_Dp[d]:
            row = rows_RC[read]
            for c in range(len(out)):
                out[c] = out[c] if out[c] > row[c] else row[c]  # in this order NaN wins


@compiled
def fill_stacked(
    start: int,
    stop: int,
    z_RC: np.ndarray,
    reads_Ds: np.ndarray,
    a_C: np.ndarray,
    total_RC: np.ndarray,
    inner_D: np.ndarray,
    y_DC: np.ndarray,
    out_DC: np.ndarray,
) -> None:
    for d in range(start, stop):
        y, out, total = y_DC[d], out_DC[d], total_RC[inner_D[d]]
        y[:] = z_RC[reads_Ds[d, 0]]
        for read in reads_Ds[d, 1:]:
            row = z_RC[read]
            for c in range(len(y)):
                y[c] += row[c]
        for c in range(len(y)):
            y[c] = 0 if y[c] < 0 else y[c]
            out[c] = total[c] + a_C[c] * y[c]


def _usable(rows: Tensor) -> bool:
    return HAS_NUMBA and rows.device.type == "cpu"


def _share(kernel: Callable[..., None], n_rows: int, *arrays: np.ndarray) -> None:
    """Run the kernel on all rows, shared by torch's number of threads."""
    threads = min(torch.get_num_threads(), n_rows // FEWEST_ROWS)
    if threads < 2:
        kernel(0, n_rows, *arrays)
        return
    bounds = [n_rows * t // threads for t in range(threads + 1)]
    others = [_workers(threads - 1).submit(kernel, bounds[t], bounds[t + 1], *arrays) for t in range(1, threads)]
    kernel(bounds[0], bounds[1], *arrays)
    for other in others:
        other.result()


@cache
def _workers(n: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n, thread_name_prefix="rows")
