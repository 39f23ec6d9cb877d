"""Which table rows each output of the bank sums, and which outputs each table row went into: see `bank`.

Shapes: N words, U distinct ones, P pairs (width, offset) of the bank, K widths, R rows of the layers.
"""

import numpy as np

from trflm.speed.compiled import compiled


@compiled
def fill_rows(
    word_N: np.ndarray,
    position_N: np.ndarray,
    remaining_N: np.ndarray,
    row_N: np.ndarray,
    slot_U: np.ndarray,
    count_U: np.ndarray,
    pairs_2P: np.ndarray,
    inputs: np.ndarray,
    outputs: np.ndarray,
) -> None:
    """Writes the last two, [N*P]. A table row is slot * P + pair, slot 0 beyond a sentence; a bank output is row * K + width
    - 1, and output 0 stands for none. Inputs stand position by position, outputs word by word and then pair by pair."""
    width_P, offset_P = pairs_2P[0], pairs_2P[1]
    n_pairs, n_widths = len(width_P), width_P.max()
    start_U = count_U.cumsum() - count_U
    seen_U = np.zeros_like(count_U)  # occurrences of each word so far
    for n in range(len(word_N)):
        word = word_N[n]
        bag = n_pairs * start_U[word] + seen_U[word]
        seen_U[word] += 1
        for pair in range(n_pairs):
            offset = offset_P[pair]
            reads = -offset <= position_N[n] and offset <= remaining_N[n]
            inputs[n * n_pairs + pair] = pair + (n_pairs * slot_U[word_N[n + offset]] if reads else 0)
            fed = offset <= position_N[n] and -offset <= remaining_N[n]
            outputs[bag + pair * count_U[word]] = (row_N[n] - offset) * n_widths + width_P[pair] - 1 if fed else 0
