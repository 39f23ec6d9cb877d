"""The transforms of minimal filtering F(6, 3), `winograd`, with the matrices written out as sums; and max-pooling of
width 2 with ReLU, h_i = ReLU(max(f_i, f_{i+1})), in one pass with them: f is read where h would be, and h is never written.

Memory is what these cost, not arithmetic.

Shapes: R rows, C channels, t groups of 6 rows, of which the first is group `first` of all; `keep_R` is 1 where a row has a word
and 0 between sentences.
"""

import numpy as np

from trflm.speed.compiled import compiled


@compiled
def input_points(first: int, h_RC: np.ndarray, points_8tC: np.ndarray) -> None:
    """B^T d: the eight points of each group, from its rows and one before and one after."""
    of = input_constants(h_RC)
    for t in range(points_8tC.shape[1]):
        r = 6 * (first + t)
        h0, h1, h2, h3 = h_RC[r], h_RC[r + 1], h_RC[r + 2], h_RC[r + 3]
        h4, h5, h6, h7 = h_RC[r + 4], h_RC[r + 5], h_RC[r + 6], h_RC[r + 7]
        for c in range(h_RC.shape[1]):
            p0, p1, p2, p3, p4, p5, p6, p7 = b_t(h0[c], h1[c], h2[c], h3[c], h4[c], h5[c], h6[c], h7[c], of)
            points_8tC[0, t, c], points_8tC[1, t, c], points_8tC[2, t, c], points_8tC[3, t, c] = p0, p1, p2, p3
            points_8tC[4, t, c], points_8tC[5, t, c], points_8tC[6, t, c], points_8tC[7, t, c] = p4, p5, p6, p7


@compiled
def output_rows(first: int, points_8tC: np.ndarray, out_RC: np.ndarray) -> None:
    """A^T p: the six rows of each group, from its points."""
    of = output_constants(out_RC)
    for t in range(points_8tC.shape[1]):
        r = 6 * (first + t) + 1
        p0, p1, p2, p3 = points_8tC[0, t], points_8tC[1, t], points_8tC[2, t], points_8tC[3, t]
        p4, p5, p6, p7 = points_8tC[4, t], points_8tC[5, t], points_8tC[6, t], points_8tC[7, t]
        for c in range(out_RC.shape[1]):
            o0, o1, o2, o3, o4, o5 = a_t(p0[c], p1[c], p2[c], p3[c], p4[c], p5[c], p6[c], p7[c], of)
            out_RC[r, c], out_RC[r + 1, c], out_RC[r + 2, c] = o0, o1, o2
            out_RC[r + 3, c], out_RC[r + 4, c], out_RC[r + 5, c] = o3, o4, o5


@compiled
def gradient_points(first: int, grad_RC: np.ndarray, points_8tC: np.ndarray) -> None:
    """A g: what the six rows of each group give to its points."""
    two, four, eight, sixteen, many, half, quarter, eighth, sixteenth, little = output_constants(grad_RC)
    for t in range(points_8tC.shape[1]):
        r = 6 * (first + t) + 1
        g0, g1, g2, g3, g4, g5 = grad_RC[r], grad_RC[r + 1], grad_RC[r + 2], grad_RC[r + 3], grad_RC[r + 4], grad_RC[r + 5]
        for c in range(grad_RC.shape[1]):
            even1, odd1 = g0[c] + g2[c] + g4[c], g1[c] + g3[c] + g5[c]
            even2, odd2 = g0[c] + four * g2[c] + sixteen * g4[c], two * g1[c] + eight * g3[c] + many * g5[c]
            even3, odd3 = g0[c] + quarter * g2[c] + sixteenth * g4[c], half * g1[c] + eighth * g3[c] + little * g5[c]
            points_8tC[0, t, c], points_8tC[7, t, c] = g0[c], g5[c]
            points_8tC[1, t, c], points_8tC[2, t, c] = even1 + odd1, even1 - odd1
            points_8tC[3, t, c], points_8tC[4, t, c] = even2 + odd2, even2 - odd2
            points_8tC[5, t, c], points_8tC[6, t, c] = even3 + odd3, even3 - odd3


@compiled
def pooled_points(first: int, f_RC: np.ndarray, keep_R: np.ndarray, points_8tC: np.ndarray) -> None:
    """B^T h."""
    of, zero = input_constants(f_RC), f_RC.dtype.type(0)
    for t in range(points_8tC.shape[1]):
        r = 6 * (first + t)
        f0, f1, f2, f3 = f_RC[r], f_RC[r + 1], f_RC[r + 2], f_RC[r + 3]
        f4, f5, f6, f7 = f_RC[r + 4], f_RC[r + 5], f_RC[r + 6], f_RC[r + 7]
        f8 = f_RC[min(r + 8, len(f_RC) - 1)]  # the last row has no word, so it is not kept
        k0, k1, k2, k3 = keep_R[r], keep_R[r + 1], keep_R[r + 2], keep_R[r + 3]
        k4, k5, k6, k7 = keep_R[r + 4], keep_R[r + 5], keep_R[r + 6], keep_R[r + 7]
        for c in range(f_RC.shape[1]):
            h0, h1 = pooled(f0[c], f1[c], zero) * k0, pooled(f1[c], f2[c], zero) * k1
            h2, h3 = pooled(f2[c], f3[c], zero) * k2, pooled(f3[c], f4[c], zero) * k3
            h4, h5 = pooled(f4[c], f5[c], zero) * k4, pooled(f5[c], f6[c], zero) * k5
            h6, h7 = pooled(f6[c], f7[c], zero) * k6, pooled(f7[c], f8[c], zero) * k7
            p0, p1, p2, p3, p4, p5, p6, p7 = b_t(h0, h1, h2, h3, h4, h5, h6, h7, of)
            points_8tC[0, t, c], points_8tC[1, t, c], points_8tC[2, t, c], points_8tC[3, t, c] = p0, p1, p2, p3
            points_8tC[4, t, c], points_8tC[5, t, c], points_8tC[6, t, c], points_8tC[7, t, c] = p4, p5, p6, p7


@compiled
def unpool_points(
    first: int, points_8tC: np.ndarray, f_RC: np.ndarray, keep_R: np.ndarray, before_C: np.ndarray, into_f_RC: np.ndarray
) -> None:
    """The gradient of h is A^T of the points; that of f is written into the last.

    Of equal values the first is the winner. The gradient of the row of h before the first group comes in `before_C`, and that
    of the last row goes out in it.
    """
    of, zero = output_constants(f_RC), f_RC.dtype.type(0)
    grad_7C = np.empty((7, f_RC.shape[1]), f_RC.dtype)  # of the row before a group, and of its own
    grad_7C[6] = before_C
    for t in range(points_8tC.shape[1]):
        r = 6 * (first + t)
        grad_7C[0] = grad_7C[6]
        p0, p1, p2, p3 = points_8tC[0, t], points_8tC[1, t], points_8tC[2, t], points_8tC[3, t]
        p4, p5, p6, p7 = points_8tC[4, t], points_8tC[5, t], points_8tC[6, t], points_8tC[7, t]
        k1, k2, k3, k4, k5, k6 = keep_R[r + 1], keep_R[r + 2], keep_R[r + 3], keep_R[r + 4], keep_R[r + 5], keep_R[r + 6]
        for c in range(f_RC.shape[1]):
            g1, g2, g3, g4, g5, g6 = a_t(p0[c], p1[c], p2[c], p3[c], p4[c], p5[c], p6[c], p7[c], of)
            grad_7C[1, c], grad_7C[2, c], grad_7C[3, c] = g1 * k1, g2 * k2, g3 * k3
            grad_7C[4, c], grad_7C[5, c], grad_7C[6, c] = g4 * k4, g5 * k5, g6 * k6
        for i in range(1, 7):
            g_before, g, f_before, f, f_after = grad_7C[i - 1], grad_7C[i], f_RC[r + i - 1], f_RC[r + i], f_RC[r + i + 1]
            for c in range(f_RC.shape[1]):
                into_f_RC[r + i, c] = unpooled(g_before[c], g[c], f_before[c], f[c], f_after[c], zero)
    before_C[:] = grad_7C[6]


@compiled
def input_constants(rows: np.ndarray) -> tuple:
    """Those of `b_t` in the type of these rows: a constant of Python would make float64 of all it meets."""
    of = rows.dtype.type
    return of(5.25), of(4.25), of(0.25), of(1.25), of(0.5), of(2.5), of(2), of(4), of(5)


@compiled
def b_t(h0: float, h1: float, h2: float, h3: float, h4: float, h5: float, h6: float, h7: float, of: tuple) -> tuple[float, ...]:
    """B^T h."""
    c5_25, c4_25, c0_25, c1_25, c0_5, c2_5, c2, c4, c5 = of
    even1, odd1 = h2 - c4_25 * h4 + h6, h1 - c4_25 * h3 + h5
    even2, odd2 = c0_25 * h2 - c1_25 * h4 + h6, c0_5 * h1 - c2_5 * h3 + c2 * h5
    even3, odd3 = c4 * h2 - c5 * h4 + h6, c2 * h1 - c2_5 * h3 + c0_5 * h5
    first, last = (h0 - h6) + c5_25 * (h4 - h2), (h7 - h1) + c5_25 * (h3 - h5)
    return first, even1 + odd1, even1 - odd1, even2 + odd2, even2 - odd2, even3 + odd3, even3 - odd3, last


@compiled
def output_constants(rows: np.ndarray) -> tuple:
    """Those of `a_t` in the type of these rows."""
    of = rows.dtype.type
    return of(2), of(4), of(8), of(16), of(32), of(1 / 2), of(1 / 4), of(1 / 8), of(1 / 16), of(1 / 32)


@compiled
def a_t(p0: float, p1: float, p2: float, p3: float, p4: float, p5: float, p6: float, p7: float, of: tuple) -> tuple[float, ...]:
    """A^T p."""
    two, four, eight, sixteen, many, half, quarter, eighth, sixteenth, little = of
    sum1, sum2, sum3, difference1, difference2, difference3 = p1 + p2, p3 + p4, p5 + p6, p1 - p2, p3 - p4, p5 - p6
    return (
        p0 + sum1 + sum2 + sum3,
        difference1 + two * difference2 + half * difference3,
        sum1 + four * sum2 + quarter * sum3,
        difference1 + eight * difference2 + eighth * difference3,
        sum1 + sixteen * sum2 + sixteenth * sum3,
        difference1 + many * difference2 + little * difference3 + p7,
    )


@compiled
def pooled(a: float, b: float, zero: float) -> float:
    """NaN in b stays, as does NaN in what is compared with zero: a run that has gone wrong is to be seen."""
    best = a if a >= b else b
    return zero if best <= zero else best


@compiled
def unpooled(g_before: float, g: float, f_before: float, f: float, f_after: float, zero: float) -> float:
    """What f is given by the windows (f_before, f) and (f, f_after), as far as it wins in them."""
    total = (g_before if f > f_before else zero) + (g if f >= f_after else zero)
    return total if f > zero else zero
