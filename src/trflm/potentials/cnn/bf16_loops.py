"""The gradient of the pooling, row by row: see `bf16`.

Shapes: R rows, C channels, n rows at once.
"""

import numpy as np

from trflm.speed.compiled import compiled


@compiled
def unpool_rows(
    first: int, into_h_nC: np.ndarray, f_RC: np.ndarray, keep_R: np.ndarray, before_C: np.ndarray, into_f_RC: np.ndarray
) -> None:
    """The gradient of h = ReLU(max(f_i, f_{i+1})) for the rows from `first` on; that of f is written into the last.

    Of equal values the first is the winner. The gradient of the row of h before comes in `before_C`, and that of the last row
    goes out in it.
    """
    zero, last = f_RC.dtype.type(0), len(f_RC) - 1
    for n in range(len(into_h_nC)):
        r = first + n
        f, f_before, f_after, g_row, keep = f_RC[r], f_RC[max(r - 1, 0)], f_RC[min(r + 1, last)], into_h_nC[n], keep_R[r]
        for c in range(f_RC.shape[1]):
            g = g_row[c] * keep
            total = (before_C[c] if f[c] > f_before[c] else zero) + (g if f[c] >= f_after[c] else zero)
            into_f_RC[r, c] = total if f[c] > zero else zero
            before_C[c] = g
