"""The pointwise half of an LSTM, what follows the products, in one pass; float32 alone.

torch's operations take several passes over the gates, and its tanh is accurate to the last bit, at 5 ns a number. Here a tanh
takes 0.7 ns: a quotient of two polynomials, at most 4e-7 off.

Shapes: P parents, R states, X inputs, n rows, H units; gates in the order input, forget, cell, output.
"""

import numpy as np

from trflm.speed.compiled import compiled

HALF, ONE = np.float32(0.5), np.float32(1)
# tanh x = x P(x^2) / Q(x^2) for |x| <= 9, where it reaches 1 in float32; fitted for the least relative error, 2e-8 before
# rounding. Highest powers first.
BOUND = np.float32(9)
P4, P3, P2, P1, P0 = (np.float32(p) for p in (1.33546484e-08, 2.06090718e-05, 0.00349558742, 0.13381025, 0.999999979))
Q4, Q3, Q2, Q1, Q0 = (np.float32(q) for q in (7.77655264e-07, 0.000328563372, 0.0258769794, 0.467143406, 1.0))


@compiled
def next_states(
    product_P4H: np.ndarray,
    parent_R: np.ndarray,
    input_X4H: np.ndarray,
    input_R: np.ndarray,
    c_PH: np.ndarray,
    h_RH: np.ndarray,
    c_RH: np.ndarray,
) -> None:
    """h and c of each state, written into the last two. Its gates are the sum of its parent's product and its input."""
    for r in range(len(parent_R)):
        p, x = parent_R[r], input_R[r]
        p0, p1, p2, p3 = product_P4H[p, 0], product_P4H[p, 1], product_P4H[p, 2], product_P4H[p, 3]
        x0, x1, x2, x3 = input_X4H[x, 0], input_X4H[x, 1], input_X4H[x, 2], input_X4H[x, 3]
        c_before_H, h_H, c_H = c_PH[p], h_RH[r], c_RH[r]
        for j in range(len(c_H)):
            c = sigmoid(p1[j] + x1[j]) * c_before_H[j] + sigmoid(p0[j] + x0[j]) * tanh(p2[j] + x2[j])
            c_H[j] = c
            h_H[j] = sigmoid(p3[j] + x3[j]) * tanh(c)


@compiled
def read_on(gates_T4H: np.ndarray, weight_4HH: np.ndarray, h_H: np.ndarray, c_H: np.ndarray, h_TH: np.ndarray) -> None:
    """h after each word of one text, written into the last; c is that before the first word and becomes that after the last."""
    H = len(c_H)
    sums_4H = np.empty((4, H), np.float32)
    for t in range(len(h_TH)):
        before_H = h_TH[t - 1] if t > 0 else h_H
        for gate in range(4):
            for j in range(H):
                row_H, total = weight_4HH[gate * H + j], np.float32(0)
                for k in range(H):
                    total += row_H[k] * before_H[k]
                sums_4H[gate, j] = total + gates_T4H[t, gate, j]
        for j in range(H):
            c = sigmoid(sums_4H[1, j]) * c_H[j] + sigmoid(sums_4H[0, j]) * tanh(sums_4H[2, j])
            c_H[j] = c
            h_TH[t, j] = sigmoid(sums_4H[3, j]) * tanh(c)


@compiled
def advance(gates_n4H: np.ndarray, c_before_nH: np.ndarray, c_nH: np.ndarray, h_nH: np.ndarray) -> None:
    """c and h of each row, written into the last two; the gates are replaced by their sigmoids, and tanh for the cell's."""
    for n in range(len(c_nH)):
        i, f, g, o = gates_n4H[n, 0], gates_n4H[n, 1], gates_n4H[n, 2], gates_n4H[n, 3]
        c_before_H, h_H, c_H = c_before_nH[n], h_nH[n], c_nH[n]
        for gate in (i, f, o):  # a loop each: one that changes four rows at once does not become vector instructions
            for j in range(len(gate)):
                gate[j] = sigmoid(gate[j])
        for j in range(len(g)):
            g[j] = tanh(g[j])
        for j in range(len(c_H)):
            c = f[j] * c_before_H[j] + i[j] * g[j]
            c_H[j] = c
            h_H[j] = o[j] * tanh(c)


@compiled
def retreat(
    gates_n4H: np.ndarray,
    c_before_nH: np.ndarray,
    c_nH: np.ndarray,
    into_h_nH: np.ndarray,
    into_c_nH: np.ndarray,
    into_n4H: np.ndarray,
) -> None:
    """The gradient of what `advance` did, whose gates and c are given: of the sums inside the gates, written into the last; of
    c before, in place of that of c."""
    for n in range(len(c_nH)):
        i, f, g, o = gates_n4H[n, 0], gates_n4H[n, 1], gates_n4H[n, 2], gates_n4H[n, 3]
        into_i, into_f, into_g, into_o = into_n4H[n, 0], into_n4H[n, 1], into_n4H[n, 2], into_n4H[n, 3]
        c_before_H, c_H, into_h_H, into_c_H = c_before_nH[n], c_nH[n], into_h_nH[n], into_c_nH[n]
        for j in range(len(c_H)):
            into_o[j] = tanh(c_H[j])
        for j in range(len(c_H)):
            into_c_H[j] += into_h_H[j] * o[j] * (ONE - into_o[j] * into_o[j])
        for j in range(len(c_H)):
            into_o[j] *= into_h_H[j] * o[j] * (ONE - o[j])
        for j in range(len(c_H)):
            into_i[j] = into_c_H[j] * g[j] * i[j] * (ONE - i[j])
        for j in range(len(c_H)):
            into_f[j] = into_c_H[j] * c_before_H[j] * f[j] * (ONE - f[j])
        for j in range(len(c_H)):
            into_g[j] = into_c_H[j] * i[j] * (ONE - g[j] * g[j])
        for j in range(len(c_H)):
            into_c_H[j] *= f[j]


@compiled
def sigmoid(x: np.float32) -> np.float32:
    return HALF + HALF * tanh(HALF * x)


@compiled
def tanh(x: np.float32) -> np.float32:
    """NaN stays NaN, so that a run that has gone wrong is seen."""
    x = BOUND if x > BOUND else x
    x = -BOUND if x < -BOUND else x
    u = x * x
    return x * ((((P4 * u + P3) * u + P2) * u + P1) * u + P0) / ((((Q4 * u + Q3) * u + Q2) * u + Q1) * u + Q0)
