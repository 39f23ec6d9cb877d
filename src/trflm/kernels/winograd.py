"""The transforms of minimal filtering F(4, 3), `potentials.winograd`, with the matrices written out as sums.

Shapes: R rows, C channels, t groups of 4 rows, of which the first is group `first` of all.
"""

import numpy as np

from trflm.kernels.compiled import compiled


@compiled
def input_points(first: int, h_RC: np.ndarray, points_6tC: np.ndarray) -> None:
    """B^T d: the six points of each group, from its rows and one before and one after."""
    two, four, five = (h_RC.dtype.type(2), h_RC.dtype.type(4), h_RC.dtype.type(5))
    for t in range(points_6tC.shape[1]):
        r = 4 * (first + t)
        h0, h1, h2, h3, h4, h5 = h_RC[r], h_RC[r + 1], h_RC[r + 2], h_RC[r + 3], h_RC[r + 4], h_RC[r + 5]
        for c in range(h_RC.shape[1]):
            points_6tC[0, t, c] = four * h0[c] - five * h2[c] + h4[c]
            points_6tC[1, t, c] = (h4[c] - four * h2[c]) + (h3[c] - four * h1[c])
            points_6tC[2, t, c] = (h4[c] - four * h2[c]) - (h3[c] - four * h1[c])
            points_6tC[3, t, c] = (h4[c] - h2[c]) + two * (h3[c] - h1[c])
            points_6tC[4, t, c] = (h4[c] - h2[c]) - two * (h3[c] - h1[c])
            points_6tC[5, t, c] = four * h1[c] - five * h3[c] + h5[c]


@compiled
def output_rows(first: int, points_6tC: np.ndarray, out_RC: np.ndarray) -> None:
    """A^T p: the four rows of each group, from its points."""
    two, four, eight = (out_RC.dtype.type(2), out_RC.dtype.type(4), out_RC.dtype.type(8))
    for t in range(points_6tC.shape[1]):
        r = 4 * (first + t) + 1
        p0, p1, p2 = points_6tC[0, t], points_6tC[1, t], points_6tC[2, t]
        p3, p4, p5 = points_6tC[3, t], points_6tC[4, t], points_6tC[5, t]
        for c in range(out_RC.shape[1]):
            out_RC[r, c] = p0[c] + (p1[c] + p2[c]) + (p3[c] + p4[c])
            out_RC[r + 1, c] = (p1[c] - p2[c]) + two * (p3[c] - p4[c])
            out_RC[r + 2, c] = (p1[c] + p2[c]) + four * (p3[c] + p4[c])
            out_RC[r + 3, c] = (p1[c] - p2[c]) + eight * (p3[c] - p4[c]) + p5[c]


@compiled
def gradient_points(first: int, grad_RC: np.ndarray, points_6tC: np.ndarray) -> None:
    """A g: what the four rows of each group give to its points."""
    two, four, eight = (grad_RC.dtype.type(2), grad_RC.dtype.type(4), grad_RC.dtype.type(8))
    for t in range(points_6tC.shape[1]):
        r = 4 * (first + t) + 1
        g0, g1, g2, g3 = grad_RC[r], grad_RC[r + 1], grad_RC[r + 2], grad_RC[r + 3]
        for c in range(grad_RC.shape[1]):
            points_6tC[0, t, c] = g0[c]
            points_6tC[1, t, c] = (g0[c] + g2[c]) + (g1[c] + g3[c])
            points_6tC[2, t, c] = (g0[c] + g2[c]) - (g1[c] + g3[c])
            points_6tC[3, t, c] = (g0[c] + four * g2[c]) + (two * g1[c] + eight * g3[c])
            points_6tC[4, t, c] = (g0[c] + four * g2[c]) - (two * g1[c] + eight * g3[c])
            points_6tC[5, t, c] = g3[c]
