"""The softmax of the output layer over logits in bf16, which come as their 16 bits, the upper half of a float32; in passes over
rows that stay in the cache, and with an exp of 0.1 ns, a polynomial that is at most 3e-7 off.

Shapes: n rows, V words, G runs of words.
"""

import numpy as np

from trflm.speed.compiled import compiled

LOG2_E = np.float32(1.4426950408889634)
RUN = 128  # words, whose sum is looked at first when one is drawn: whole vector instructions
LOWEST = np.float32(-126)  # 2^x below it is 0, or as good as that
# 2^x for -1 < x <= 0, fitted for the least relative error, 7e-8 before rounding. Highest powers first.
P5, P4, P3, P2, P1, P0 = (
    np.float32(p) for p in (9.387883474e-04, 9.188612e-03, 5.52797243e-02, 0.240172192, 0.693142235, 0.99999994)
)


@compiled
def add_words(z_nV: np.ndarray, bias_V: np.ndarray, most_n: np.ndarray, sum_n: np.ndarray) -> None:
    """Adds some words to sum exp(logit - most), most being the greatest logit so far."""
    logit_V = np.empty(len(bias_V), np.float32)
    for n in range(len(z_nV)):
        most = logits_of(z_nV[n], bias_V, logit_V)
        total = np.float32(0)
        if most < most_n[n]:
            most = most_n[n]
        for v in range(len(logit_V)):
            total += exp(logit_V[v] - most)
        sum_n[n] = sum_n[n] * exp(most_n[n] - most) + total
        most_n[n] = most


@compiled
def draw_words(z_nV: np.ndarray, bias_V: np.ndarray, level_n: np.ndarray, word_n: np.ndarray) -> None:
    """The first word at which the cumulative probability exceeds the level, in [0, 1); the run it is in is found first."""
    V = len(bias_V)
    logit_V, run_G = np.empty(V, np.float32), np.empty((V + RUN - 1) // RUN, np.float32)
    for n in range(len(z_nV)):
        most = logits_of(z_nV[n], bias_V, logit_V)
        for v in range(V):
            logit_V[v] = exp(logit_V[v] - most)
        for g in range(len(run_G)):
            run_G[g] = total_of(logit_V[g * RUN : min((g + 1) * RUN, V)])
        level = level_n[n] * run_G.astype(np.float64).sum()
        g = 0
        while level >= run_G[g] and g + 1 < len(run_G):
            level -= run_G[g]
            g += 1
        v, end = g * RUN, min((g + 1) * RUN, V)
        while level >= logit_V[v] and v + 1 < end:
            level -= logit_V[v]
            v += 1
        word_n[n] = v


@compiled
def logits_of(z_V: np.ndarray, bias_V: np.ndarray, logit_V: np.ndarray) -> np.float32:
    """The greatest of them; all are written into the last."""
    for v in range(len(logit_V)):
        logit_V[v] = np.uint32(np.uint32(z_V[v]) << np.uint32(16)).view(np.float32) + bias_V[v]
    width = (len(logit_V) + 1) // 2
    most_W = logit_V[:width].copy()  # one half against the other, again and again: these loops become vector instructions
    larger(most_W, logit_V[width:])
    while width > 1:
        half = (width + 1) // 2
        larger(most_W, most_W[half:width])
        width = half
    return most_W[0]


@compiled
def total_of(x_V: np.ndarray) -> np.float32:
    total = np.float32(0)
    for v in range(len(x_V)):
        total += x_V[v]
    return total


@compiled
def larger(most_W: np.ndarray, other_W: np.ndarray) -> None:
    """The larger of two numbers, in place of the first."""
    for w in range(len(other_W)):
        most_W[w] = other_W[w] if other_W[w] > most_W[w] else most_W[w]


@compiled
def exp(x: np.float32) -> np.float32:
    """Of a number that is not above 0. NaN stays, so that a model that has gone wrong is seen."""
    x *= LOG2_E
    x = LOWEST if x < LOWEST else x
    whole = np.int32(x)
    rest = x - np.float32(whole)
    power = np.int32(np.int32(whole + np.int32(127)) << np.int32(23)).view(np.float32)
    return power * (((((P5 * rest + P4) * rest + P3) * rest + P2) * rest + P1) * rest + P0)
