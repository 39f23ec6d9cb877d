"""Max-pooling of width 2 with ReLU, h_i = ReLU(max(f_i, f_{i+1})), in one pass with the transforms of minimal filtering.

Memory is what these cost, not arithmetic: so f is read where h would be, and h is never written. The matrices B^T and A^T are
those of `potentials.winograd`, written out as sums.

Shapes: R rows, C channels, t groups of 4 rows; `keep_R` is 1 where a row has a word and 0 between sentences.
"""

import numpy as np

from trflm.kernels.compiled import compiled


@compiled
def pooled_points(first: int, f_RC: np.ndarray, keep_R: np.ndarray, points_6tC: np.ndarray) -> None:
    """B^T h of the groups from `first` on, written into the last."""
    zero, two, four, five = (f_RC.dtype.type(0), f_RC.dtype.type(2), f_RC.dtype.type(4), f_RC.dtype.type(5))
    for t in range(points_6tC.shape[1]):
        r = 4 * (first + t)
        f0, f1, f2, f3, f4, f5 = f_RC[r], f_RC[r + 1], f_RC[r + 2], f_RC[r + 3], f_RC[r + 4], f_RC[r + 5]
        f6 = f_RC[min(r + 6, len(f_RC) - 1)]  # the last row has no word, so it is not kept
        k0, k1, k2, k3, k4, k5 = keep_R[r], keep_R[r + 1], keep_R[r + 2], keep_R[r + 3], keep_R[r + 4], keep_R[r + 5]
        for c in range(f_RC.shape[1]):
            h0 = pooled(f0[c], f1[c], zero) * k0
            h1 = pooled(f1[c], f2[c], zero) * k1
            h2 = pooled(f2[c], f3[c], zero) * k2
            h3 = pooled(f3[c], f4[c], zero) * k3
            h4 = pooled(f4[c], f5[c], zero) * k4
            h5 = pooled(f5[c], f6[c], zero) * k5
            points_6tC[0, t, c] = four * h0 - five * h2 + h4
            points_6tC[1, t, c] = (h4 - four * h2) + (h3 - four * h1)
            points_6tC[2, t, c] = (h4 - four * h2) - (h3 - four * h1)
            points_6tC[3, t, c] = (h4 - h2) + two * (h3 - h1)
            points_6tC[4, t, c] = (h4 - h2) - two * (h3 - h1)
            points_6tC[5, t, c] = four * h1 - five * h3 + h5


@compiled
def pooled(a: float, b: float, zero: float) -> float:
    """NaN in b stays, as does NaN in what is compared with zero: a run that has gone wrong is to be seen."""
    best = a if a >= b else b
    return zero if best <= zero else best


@compiled
def unpool_points(
    first: int, points_6tC: np.ndarray, f_RC: np.ndarray, keep_R: np.ndarray, before_C: np.ndarray, into_f_RC: np.ndarray
) -> None:
    """The gradient of h is A^T of the points; that of f, for the groups from `first` on, is written into the last.

    Of equal values the first is the winner. The gradient of the row of h before the first group comes in `before_C`, and that
    of the last row goes out in it.
    """
    zero, two, four, eight = (f_RC.dtype.type(0), f_RC.dtype.type(2), f_RC.dtype.type(4), f_RC.dtype.type(8))
    for t in range(points_6tC.shape[1]):
        r = 4 * (first + t)
        p0, p1, p2 = points_6tC[0, t], points_6tC[1, t], points_6tC[2, t]
        p3, p4, p5 = points_6tC[3, t], points_6tC[4, t], points_6tC[5, t]
        f0, f1, f2, f3, f4, f5 = f_RC[r], f_RC[r + 1], f_RC[r + 2], f_RC[r + 3], f_RC[r + 4], f_RC[r + 5]
        k1, k2, k3, k4 = keep_R[r + 1], keep_R[r + 2], keep_R[r + 3], keep_R[r + 4]
        for c in range(f_RC.shape[1]):
            g0 = before_C[c]
            g1 = (p0[c] + (p1[c] + p2[c]) + (p3[c] + p4[c])) * k1
            g2 = ((p1[c] - p2[c]) + two * (p3[c] - p4[c])) * k2
            g3 = ((p1[c] + p2[c]) + four * (p3[c] + p4[c])) * k3
            g4 = ((p1[c] - p2[c]) + eight * (p3[c] - p4[c]) + p5[c]) * k4
            into_f_RC[r + 1, c] = unpooled(g0, g1, f0[c], f1[c], f2[c], zero)
            into_f_RC[r + 2, c] = unpooled(g1, g2, f1[c], f2[c], f3[c], zero)
            into_f_RC[r + 3, c] = unpooled(g2, g3, f2[c], f3[c], f4[c], zero)
            into_f_RC[r + 4, c] = unpooled(g3, g4, f3[c], f4[c], f5[c], zero)
            before_C[c] = g4


@compiled
def unpooled(g_before: float, g: float, f_before: float, f: float, f_after: float, zero: float) -> float:
    """What f is given by the windows (f_before, f) and (f, f_after), as far as it wins in them."""
    total = (g_before if f > f_before else zero) + (g if f >= f_after else zero)
    return total if f > zero else zero
