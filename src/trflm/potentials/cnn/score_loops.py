"""What the windows of a CNN's bank read: sums of table rows, and their maxima (`score`).

Shapes: D distinct windows, U distinct words, k words of a window, p width of the pooling, w filters of a width.
"""

import numpy as np

from trflm.speed.compiled import compiled


@compiled
def bank_rows(table: np.ndarray, first_row_U: np.ndarray, words_Dk: np.ndarray, pair: int, f_Dw: np.ndarray) -> None:
    """f_Dw: the sum over the words of each window of the word's table row for (width, offset), `pair` being that of the first
    offset. Three rows are added at a time, in registers; where there are fewer, row 0 stands in, which is all zeros."""
    k = words_Dk.shape[1]
    rows = np.zeros(k + -k % 3, np.int64)
    for d in range(len(words_Dk)):
        for j in range(k):
            rows[j] = first_row_U[words_Dk[d, j]] + pair + j
        for j in range(0, len(rows), 3):
            a, b, c = rows[j], rows[j + 1], rows[j + 2]
            if j == 0:
                for i in range(f_Dw.shape[1]):
                    f_Dw[d, i] = table[a, i] + table[b, i] + table[c, i]
            else:
                for i in range(f_Dw.shape[1]):
                    f_Dw[d, i] += table[a, i] + table[b, i] + table[c, i]


@compiled
def pooled_rows(f_Dw: np.ndarray, reads_pD: np.ndarray, h_Dw: np.ndarray) -> None:
    """h_Dw: ReLU of the maximum of p bank rows."""
    p, zero = len(reads_pD), np.float32(0)
    for d in range(len(h_Dw)):
        first, last = reads_pD[0, d], reads_pD[p - 1, d]
        for i in range(h_Dw.shape[1]):
            a, b = f_Dw[first, i], f_Dw[last, i]
            larger = a if a > b else b
            h_Dw[d, i] = larger if larger > zero else zero
        for j in range(1, p - 1):
            between = reads_pD[j, d]
            for i in range(h_Dw.shape[1]):
                a, b = f_Dw[between, i], h_Dw[d, i]
                h_Dw[d, i] = a if a > b else b
