"""Numbering equal tuples with a hash table, 5 ns each (`distinct`); the windows of a batch, and what each reads
(`potentials.cnn.windows`). All numbers are int32.

Places are in sentences that stand one after the other; the words of the sentence around place m are first_M[m]..end_M[m].

Shapes: B sentences, M places, N of them with words, K widths of the bank, L levels, D distinct windows, X of them in new rows,
k words of a window, p width of the pooling, s offsets of a stack layer.
"""

import numpy as np

from trflm.speed.compiled import compiled

MULTIPLIER = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: spreads neighbouring keys over the high bits


@compiled
def number_tuples(columns: tuple[np.ndarray, ...], base: int, number_M: np.ndarray, place_M: np.ndarray) -> int:
    """`number_keys` of the tuples (columns[0][m], columns[1][m], ...), written as one number in this base."""
    key_M = np.zeros(len(number_M), np.int64)
    for column_M in columns:
        for m in range(len(key_M)):
            key_M[m] = key_M[m] * base + column_M[m]
    return number_keys(key_M, np.arange(len(key_M)), len(key_M), number_M, place_M)


@compiled
def number_keys(key_M: np.ndarray, like_M: np.ndarray, expected: int, number_M: np.ndarray, place_M: np.ndarray) -> int:
    """Distinct keys are numbered in order of appearance: the number of each goes into `number_M`, a place of each number into
    `place_M`. Returns how many there are. `like_M` is an earlier place that may well have the same key, or the place itself.

    A hash table with open addressing, with room for the `expected` number of keys, so that it stays in the cache if they are
    few; if there are more, it grows.
    """
    size, shift = 64, 58
    while size < 2 * min(expected, len(key_M)):
        size, shift = size * 2, shift - 1
    slots, key_of = np.full(size, -1, np.int32), np.empty(len(key_M), np.int64)
    count = 0
    for m in range(len(key_M)):
        key = key_M[m]
        if like_M[m] < m and key_M[like_M[m]] == key:
            number_M[m] = number_M[like_M[m]]
            continue
        slot = np.int64((np.uint64(key) * np.uint64(MULTIPLIER)) >> np.uint64(shift))
        while slots[slot] >= 0 and key_of[slots[slot]] != key:
            slot = (slot + 1) & (size - 1)
        if slots[slot] < 0:
            slots[slot], key_of[count], place_M[count] = count, key, m
            count += 1
            if 2 * count > size:  # twice the room, and all keys anew
                size, shift = size * 2, shift - 1
                slots = np.full(size, -1, np.int32)
                for number in range(count):
                    slot = np.int64((np.uint64(key_of[number]) * np.uint64(MULTIPLIER)) >> np.uint64(shift))
                    while slots[slot] >= 0:
                        slot = (slot + 1) & (size - 1)
                    slots[slot] = number
            number_M[m] = count - 1
        else:
            number_M[m] = slots[slot]
    return count


@compiled
def index_windows(
    word_N: np.ndarray, beyond: int, length_B: np.ndarray, shape: tuple[int, int, int, int], low: np.ndarray
) -> tuple[list, list, list, np.ndarray]:
    """The layers of `potentials.windows.WindowIndex`, given the number of each word, all below `beyond`: (the words of the bank
    windows of each width; what the pooled windows of each width read and widen; the same of each stack layer; the row of the
    last one at each word). `low[n]` is the first offset of a half convolution of width n."""
    K, p, s, n_layers = shape
    N, M, L = len(word_N), len(word_N) + len(length_B), K + p - 1
    at_4M, at_4N = np.empty((4, M), np.int32), np.empty((4, N), np.int32)
    lay_out(length_B, word_N, beyond, at_4M, at_4N)
    word_M, first_M, end_M, like_M = at_4M[0], at_4M[1], at_4M[2], at_4M[3]
    place_N, first_N, end_N, like_N = at_4N[0], at_4N[1], at_4N[2], at_4N[3]

    # 1. The n-grams around every place.
    number_LM, place_LM, count_L = np.empty((L, M), np.int32), np.empty((L, M), np.int32), np.empty(L, np.int64)
    number_ngrams(word_M, first_M, end_M, like_M, beyond, low, number_LM, place_LM, count_L)

    # 2. What the bank and the pooling read.
    zero = int(low[1])  # a literal 0 is a type of its own to numba, for which all would be compiled again
    row_N, count, widened_X, place_D = np.full(N, -1, np.int32), zero, np.empty(N, np.int32), np.empty(N, np.int32)
    bank, pool, stack = [], [], []
    for k in range(1, K + 1):
        bank.append(around(word_M, place_LM[k - 1, : count_L[k - 1]], low[k], k, beyond, first_M, end_M))
        n, before = k + p - 1, count
        shift = low[k] + low[p] - low[n]  # a pooled window is the n-gram around its place or the next one
        count = widen(number_LM[n - 1], count_L[n - 1], place_N, shift, row_N, count, widened_X, place_D)
        reads_pD = near(number_LM[k - 1], place_D[:count], low[p], p, first_M, end_M)
        pool.append((reads_pD, widened_X[: count - before].copy()))

    # 3. The stack.
    every_N, above_N = np.arange(N).astype(np.int32), np.empty(N, np.int32)
    for _ in range(n_layers):
        below_N, before = row_N.copy(), count
        n_above = number_stack(row_N, count, first_N, end_N, like_N, low[s], s, above_N, place_D)
        count = widen(above_N, n_above, every_N, zero, row_N, count, widened_X, place_D)
        reads_Ds = around(below_N, place_D[:count], low[s], s, before, first_N, end_N)
        for d in range(count):
            for o in range(s):
                reads_Ds[d, o] = reads_Ds[d, o] * s + o
        stack.append((reads_Ds, widened_X[: count - before].copy()))
    return bank, pool, stack, row_N.astype(np.int64)


@compiled
def lay_out(length_B: np.ndarray, word_N: np.ndarray, beyond: int, at_4M: np.ndarray, at_4N: np.ndarray) -> None:
    """Two ways to lay out sentences, written into the last two: (word, first, end, like) with one place more after each
    sentence, whose word is `beyond`; and (place among those, first, end, like) of the words alone. Like a place is the same one
    of the sentence before: hypotheses of an utterance begin alike."""
    m = n = back_m = back_n = 0
    for length in length_B:
        for i in range(length + 1):
            word = word_N[n + i] if i < length else beyond
            at_4M[0, m + i], at_4M[1, m + i], at_4M[2, m + i], at_4M[3, m + i] = word, m, m + length, m + i - back_m
        for i in range(length):
            at_4N[0, n + i], at_4N[1, n + i], at_4N[2, n + i], at_4N[3, n + i] = m + i, n, n + length, n + i - back_n
        back_m, back_n = length + 1, length
        m, n = m + back_m, n + back_n


@compiled
def number_ngrams(
    word_M: np.ndarray,
    first_M: np.ndarray,
    end_M: np.ndarray,
    like_M: np.ndarray,
    beyond: int,
    low: np.ndarray,
    number_LM: np.ndarray,
    place_LM: np.ndarray,
    count_L: np.ndarray,
) -> None:
    """Level by level: a window with one word more, at one end or the other, is the pair of the two, and pairs are numbered in
    order of appearance. Written are the number at every place, a place of each number, and how many there are."""
    key_M = np.empty(len(word_M), np.int64)
    for level in range(len(count_L)):
        n = level + 1
        added = low[n] if low[n] < low[level] else low[n] + level
        for m in range(len(word_M)):
            at = m + added
            key_M[m] = word_M[at] if first_M[m] <= at < end_M[m] else beyond
            if level > 0:
                key_M[m] += np.int64(number_LM[level - 1, m]) * (beyond + 1)
        expected = 2 * count_L[level - 1] if level > 0 else beyond
        count_L[level] = number_keys(key_M, like_M, expected, number_LM[level], place_LM[level])


@compiled
def widen(
    number_M: np.ndarray,
    n_numbers: int,
    place_N: np.ndarray,
    shift: int,
    row_N: np.ndarray,
    n_rows: int,
    widened_X: np.ndarray,
    place_D: np.ndarray,
) -> int:
    """Rows for the windows `shift` to the right of each place, given their numbers and the `n_rows` rows of the windows that
    they widen (-1: none). The first to widen a row gets it, all others get new ones. Written are the row of each, in `row_N`,
    what each new row widens, and a place of each row. Returns how many rows there are."""
    row_of, is_taken = np.full(n_numbers, -1, np.int32), np.zeros(n_rows, np.bool_)
    count = n_rows
    for n in range(len(place_N)):
        number = number_M[place_N[n] + shift]
        row = row_of[number]
        if row < 0:
            row = row_N[n]
            if row < 0 or is_taken[row]:
                widened_X[count - n_rows], row = row, count
                count += 1
            else:
                is_taken[row] = True
            row_of[number], place_D[row] = row, place_N[n]
        row_N[n] = row
    return count


@compiled
def number_stack(
    row_M: np.ndarray,
    count: int,
    first_M: np.ndarray,
    end_M: np.ndarray,
    like_M: np.ndarray,
    low: int,
    s: int,
    number_M: np.ndarray,
    place_M: np.ndarray,
) -> int:
    """Numbers the s-tuples of rows around every place, from offset `low` on, `count` standing for what is beyond a sentence.
    Returns how many there are. A tuple too long for 64 bits is numbered a part at a time."""
    key_M, n_keys = np.zeros(len(row_M), np.int64), 1  # keys are below n_keys
    for j in range(s):
        if n_keys > (1 << 62) // (count + 1):
            n_keys = number_keys(key_M, like_M, 2 * count, number_M, place_M)
            for m in range(len(key_M)):
                key_M[m] = number_M[m]
        for m in range(len(row_M)):
            at = m + low + j
            key_M[m] = key_M[m] * (count + 1) + (row_M[at] if first_M[m] <= at < end_M[m] else count)
        n_keys *= count + 1
    return number_keys(key_M, like_M, 2 * count, number_M, place_M)


@compiled
def around(
    number_M: np.ndarray, place_D: np.ndarray, low: int, n: int, beyond: int, first_M: np.ndarray, end_M: np.ndarray
) -> np.ndarray:
    """[D, n] the numbers at each place and around it, from offset `low` on; `beyond` outside its sentence."""
    around_Dn = np.empty((len(place_D), n), np.int32)
    for d in range(len(place_D)):
        place = place_D[d]
        for j in range(n):
            at = place + low + j
            around_Dn[d, j] = number_M[at] if first_M[place] <= at < end_M[place] else beyond
    return around_Dn


@compiled
def near(number_M: np.ndarray, place_D: np.ndarray, low: int, p: int, first_M: np.ndarray, end_M: np.ndarray) -> np.ndarray:
    """[p, D] the numbers at each place and around it, from offset `low` on; outside its sentence that of the nearest word. A
    maximum may read that instead of what is beyond: it reads it anyway."""
    near_pD = np.empty((p, len(place_D)), np.int32)
    for j in range(p):
        for d in range(len(place_D)):
            place = place_D[d]
            near_pD[j, d] = number_M[min(max(place + low + j, first_M[place]), end_M[place] - 1)]
    return near_pD
