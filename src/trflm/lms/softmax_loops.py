"""Drawing words from a softmax in two steps, class then word: the parts torch has no operation for.

Shapes: R rows of probabilities, T trials (each on a row), K classes, V words in the order of their classes, W words of the
largest class, H units.
"""

import numpy as np

from trflm.speed.compiled import compiled

AT_ONCE = 4  # trials of one class whose logits are computed together: each weight is read once for all of them


@compiled
def choose_or_take(
    prob_RK: np.ndarray, row_T: np.ndarray, given_T: np.ndarray, level_T: np.ndarray, choice_T: np.ndarray
) -> None:
    """The given index where it is not negative, elsewhere the first at which the cumulative probability exceeds the level."""
    for t in range(len(row_T)):
        choice_T[t] = given_T[t]
        if given_T[t] < 0:
            prob_K = prob_RK[row_T[t]]
            level, total, k = level_T[t] * prob_K.astype(np.float64).sum(), float(prob_K[0]), 0
            while total <= level and k + 1 < len(prob_K):
                k += 1
                total += prob_K[k]
            choice_T[t] = k


@compiled
def class_logits(
    most: int,
    h_TH: np.ndarray,
    count_K: np.ndarray,
    bound_K: np.ndarray,
    weight_VH: np.ndarray,
    bias_V: np.ndarray,
    logit_TW: np.ndarray,
) -> None:
    """The logits of the words of each trial's class, written into the first columns of `logit_TW`.

    `h_TH` is in the order of classes: the first count_K[0] rows are of class 0. The words of class k are bound_K[k] and the
    following, below bound_K[k + 1], so there are K + 1 bounds. Classes of more than `most` trials are left out.
    """
    zero = h_TH.dtype.type(0)
    end = 0
    for k in range(len(count_K)):
        first, end = end, end + count_K[k]
        if count_K[k] > most:
            continue
        for t0 in range(first, end, AT_ONCE):
            t1, t2, t3 = min(t0 + 1, end - 1), min(t0 + 2, end - 1), min(t0 + 3, end - 1)  # the last ones may be computed twice
            h0_H, h1_H, h2_H, h3_H = h_TH[t0], h_TH[t1], h_TH[t2], h_TH[t3]
            for v in range(bound_K[k], bound_K[k + 1]):
                weight_H = weight_VH[v]
                l0 = l1 = l2 = l3 = zero
                for i in range(len(weight_H)):
                    l0 += weight_H[i] * h0_H[i]
                    l1 += weight_H[i] * h1_H[i]
                    l2 += weight_H[i] * h2_H[i]
                    l3 += weight_H[i] * h3_H[i]
                w, bias = v - bound_K[k], bias_V[v]
                logit_TW[t3, w], logit_TW[t2, w] = l3 + bias, l2 + bias
                logit_TW[t1, w], logit_TW[t0, w] = l1 + bias, l0 + bias
