"""What stands between the products of `bf16`: pooling, and the sums over the offsets of a filter, there and back.

Numbers in bf16 come as their 16 bits, which are the upper half of a float32. Memory is what these cost, not arithmetic.

Shapes: R rows, C channels, S channels of a layer, O offsets, Q = O * S, n rows at once; `keep_R` is true where a row has a
word.
"""

import numpy as np

from trflm.speed.compiled import compiled


@compiled
def pool_rows(f_RC: np.ndarray, keep_R: np.ndarray, h_RC: np.ndarray) -> None:
    """h = ReLU(max(f_i, f_{i+1})), written into the last."""
    zero = np.float32(0)
    for r in range(len(f_RC)):
        if not keep_R[r]:  # as in the last row
            h_RC[r] = 0
            continue
        f, after, h = f_RC[r], f_RC[r + 1], h_RC[r]
        for c in range(len(h)):
            a, b = number(f[c]), number(after[c])
            best = a if a >= b else b  # NaN in b stays, as does NaN in what is compared with zero
            h[c] = upper(zero if best <= zero else best)


@compiled
def unpool_rows(
    first: int, into_h_nC: np.ndarray, f_RC: np.ndarray, keep_R: np.ndarray, before_C: np.ndarray, into_f_RC: np.ndarray
) -> None:
    """The gradient of f for the rows from `first` on, written into the last, from that of h.

    The gradient of the row of h before comes in `before_C`, float32, and that of the last row goes out in it.
    """
    zero, last = np.float32(0), len(f_RC) - 1
    for n in range(len(into_h_nC)):
        r = first + n
        g_row, f, into_f = into_h_nC[n], f_RC[r], into_f_RC[r]
        f_before, f_after, keep = f_RC[max(r - 1, 0)], f_RC[min(r + 1, last)], np.float32(keep_R[r])
        for c in range(len(f)):
            value, g = number(f[c]), number(g_row[c]) * keep
            total = (before_C[c] if value > number(f_before[c]) else zero) + (g if value >= number(f_after[c]) else zero)
            into_f[c] = rounded(total if value > zero else zero)
            before_C[c] = g


@compiled
def sum_offsets(
    z_RQ: np.ndarray, offset_O: np.ndarray, keep_R: np.ndarray, a_S: np.ndarray, y_RS: np.ndarray, total_RS: np.ndarray
) -> None:
    """Y_i = ReLU(sum_o z_{i+o, o}), zero between sentences; a Y is added to the last, float32."""
    S, zero = len(a_S), np.float32(0)
    sums_S = np.empty(S, np.float32)
    for r in range(len(y_RS)):
        y, total = y_RS[r], total_RS[r]
        if not keep_R[r]:
            y[:] = 0
            continue
        sums_S[:] = zero
        for o in range(len(offset_O)):
            z = z_RQ[r + offset_O[o], o * S : (o + 1) * S]
            for s in range(S):
                sums_S[s] += number(z[s])
        for s in range(S):
            y[s] = rounded(zero if sums_S[s] <= zero else sums_S[s])
            total[s] += a_S[s] * number(y[s])


@compiled
def spread_offsets(
    into_y_RS: np.ndarray,
    into_total_RS: np.ndarray,
    y_RS: np.ndarray,
    keep_R: np.ndarray,
    a_S: np.ndarray,
    offset_O: np.ndarray,
    into_a_S: np.ndarray,
    into_z_RQ: np.ndarray,
) -> None:
    """The gradient of `sum_offsets`: of a, added to the one before the last; of z, written into the last, which is zeros.
    Y has one of its own, and a part in that of the total."""
    S, zero = len(a_S), np.float32(0)
    into_S = np.empty(S, np.uint16)
    for r in range(len(y_RS)):
        if not keep_R[r]:
            continue
        into_y, into_total, y = into_y_RS[r], into_total_RS[r], y_RS[r]
        for s in range(S):
            value = number(y[s])
            into_a_S[s] += into_total[s] * value
            into_S[s] = rounded(number(into_y[s]) + into_total[s] * a_S[s] if value > zero else zero)
        for o in range(len(offset_O)):
            into_z_RQ[r + offset_O[o], o * S : (o + 1) * S] = into_S


@compiled
def number(bits: np.uint16) -> np.float32:
    return np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32)


@compiled
def upper(x: np.float32) -> np.uint16:
    """The bits of a number that bf16 holds."""
    return np.uint16(np.float32(x).view(np.uint32) >> np.uint32(16))


@compiled
def rounded(x: np.float32) -> np.uint16:
    """The bits of the nearest number, of two the even one."""
    bits = np.float32(x).view(np.uint32)
    odd = np.uint32(np.uint32(bits >> np.uint32(16)) & np.uint32(1))
    return np.uint16(np.uint32(bits + np.uint32(np.uint32(0x7FFF) + odd)) >> np.uint32(16))
