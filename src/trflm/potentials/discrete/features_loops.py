"""Looking up the features of a discrete field in a hash table (`potentials.discrete.features`, whose shapes these are).

A slot holds the number of a feature, or -1; a feature's slot is the hash of its key, or the next free one. Every pattern has
slots of its own, a power of two from `slot_P1[p]` on, so that those of the small patterns stay in the cache.
"""

from typing import Any

import numpy as np

from trflm.speed.compiled import compiled

MULTIPLIER = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: spreads neighbouring keys over the high bits


@compiled
def hash_of(key: Any, size: Any) -> Any:
    """A number below `size`, a power of two."""
    mixed = np.uint64(key) * np.uint64(MULTIPLIER)
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(size - 1))


@compiled
def slot_of(key: Any, p: Any, slot_P1: np.ndarray) -> Any:
    return slot_P1[p] + hash_of(key, slot_P1[p + 1] - slot_P1[p])


@compiled
def fill_slots(key_K: np.ndarray, first_P1: np.ndarray, slots: np.ndarray, slot_P1: np.ndarray) -> None:
    """Give every feature its slot."""
    for p in range(len(first_P1) - 1):
        base, size = slot_P1[p], slot_P1[p + 1] - slot_P1[p]
        for k in range(first_P1[p], first_P1[p + 1]):
            slot = hash_of(key_K[k], size)
            while slots[base + slot] >= 0:
                slot = (slot + 1) & (size - 1)
            slots[base + slot] = k


@compiled
def look_up(key: Any, p: Any, slots: np.ndarray, slot_P1: np.ndarray, key_K: np.ndarray) -> Any:
    """The feature of this key and pattern, or -1."""
    base, size = slot_P1[p], slot_P1[p + 1] - slot_P1[p]
    slot = hash_of(key, size)
    while True:
        k = slots[base + slot]
        if k < 0 or key_K[k] == key:
            return k
        slot = (slot + 1) & (size - 1)


@compiled
def find_features(
    symbols: np.ndarray,
    position_M: np.ndarray,
    pattern_J: np.ndarray,
    order_J: np.ndarray,
    offset_J4: np.ndarray,
    base_J4: np.ndarray,
    row_J4: np.ndarray,
    slots: np.ndarray,
    slot_P1: np.ndarray,
    key_K: np.ndarray,
    feature: np.ndarray,
    place: np.ndarray,
    column: np.ndarray,
) -> int:
    """Writes the last three, one entry for each occurrence; how many there are.

    A look-up waits for memory twice: for the slot, then for the key of the feature in it. All columns of a place wait together:
    first the slots of all are read, then the keys of all, without a branch between.
    """
    n, J = 0, len(pattern_J)
    key_J, which_J, slot_J = np.empty(J, np.int64), np.empty(J, np.int64), np.empty(J, np.int64)
    first_J, stored_J = np.empty(J, np.int64), np.empty(J, np.int64)  # the feature in the slot, and its key
    for m in range(len(position_M)):
        C = 0
        for j in range(J):
            if position_M[m] >= max(-offset_J4[j, 0], 1):
                key = 0
                for i in range(order_J[j]):
                    key = key * base_J4[j, i] + symbols[row_J4[j, i], m + offset_J4[j, i]]
                key_J[C], which_J[C], slot_J[C] = key, j, slot_of(key, pattern_J[j], slot_P1)
                C += 1
        for c in range(C):
            first_J[c] = slots[slot_J[c]]
        for c in range(C):
            stored_J[c] = key_K[max(first_J[c], 0)]
        for c in range(C):
            k, p = first_J[c], pattern_J[which_J[c]]
            if k >= 0 and stored_J[c] != key_J[c]:
                k = look_up(key_J[c], p, slots, slot_P1, key_K)
            if k >= 0:
                feature[n], place[n], column[n] = k, m, which_J[c]
                n += 1
    return n


@compiled
def sum_weights(
    symbols: np.ndarray,
    position_M: np.ndarray,
    pattern_J: np.ndarray,
    order_J: np.ndarray,
    offset_J4: np.ndarray,
    base_J4: np.ndarray,
    row_J4: np.ndarray,
    slots: np.ndarray,
    slot_P1: np.ndarray,
    key_K: np.ndarray,
    weight_K: np.ndarray,
    sum_M: np.ndarray,
) -> None:
    """Adds to `sum_M` the weights of the features that end at each place. What was found for a key of a pattern is kept in a
    small table, which stays in the cache, so that each distinct key is looked up once."""
    size = 1024
    known, value = np.full(size, -1, np.int64), np.empty(size, weight_K.dtype)
    n = 0
    for j in range(len(pattern_J)):
        p = pattern_J[j]
        if j and p != pattern_J[j - 1]:
            known[:] = -1
            n = 0
        for m in range(len(position_M)):
            if position_M[m] < max(-offset_J4[j, 0], 1):
                continue
            key = 0
            for i in range(order_J[j]):
                key = key * base_J4[j, i] + symbols[row_J4[j, i], m + offset_J4[j, i]]
            slot = hash_of(key, size)
            while known[slot] >= 0 and known[slot] != key:
                slot = (slot + 1) & (size - 1)
            if known[slot] < 0:
                k = look_up(key, p, slots, slot_P1, key_K)
                known[slot], value[slot] = key, weight_K[k] if k >= 0 else weight_K.dtype.type(0)
                n += 1
            sum_M[m] += value[slot]
            if 2 * n > size:  # four times the room, and all keys anew
                old_known, old_value = known, value
                size = 4 * size
                known, value = np.full(size, -1, np.int64), np.empty(size, weight_K.dtype)
                for old in range(len(old_known)):
                    if old_known[old] >= 0:
                        slot = hash_of(old_known[old], size)
                        while known[slot] >= 0:
                            slot = (slot + 1) & (size - 1)
                        known[slot], value[slot] = old_known[old], old_value[old]


@compiled
def find_alternatives(
    symbols: np.ndarray,
    position_M: np.ndarray,
    remaining_M: np.ndarray,
    place_N: np.ndarray,
    word_NA: np.ndarray,
    class_of: np.ndarray,
    pattern_J: np.ndarray,
    order_J: np.ndarray,
    offset_J4: np.ndarray,
    base_J4: np.ndarray,
    row_J4: np.ndarray,
    slots: np.ndarray,
    slot_P1: np.ndarray,
    key_K: np.ndarray,
    feature: np.ndarray,
    row: np.ndarray,
) -> int:
    """As `find_features`, of the features that cover the place of word n if alternative a stands there: `row` is n A + a."""
    n, J = 0, len(pattern_J)
    key_C, which_C, slot_C = np.empty(4 * J, np.int64), np.empty(4 * J, np.int64), np.empty(4 * J, np.int64)
    first_C, stored_C = np.empty(4 * J, np.int64), np.empty(4 * J, np.int64)
    own = np.empty(2, np.int64)
    A = word_NA.shape[1]
    for i in range(len(place_N)):
        at = place_N[i]
        for a in range(A):
            own[0] = word_NA[i, a]
            own[1] = class_of[own[0]] if len(class_of) else 0
            C = 0
            for j in range(J):
                for u in range(order_J[j]):
                    last = at - offset_J4[j, u]
                    if offset_J4[j, 0] - offset_J4[j, u] < -position_M[at] or -offset_J4[j, u] > remaining_M[at]:
                        continue
                    key = 0
                    for v in range(order_J[j]):
                        symbol = own[row_J4[j, v]] if u == v else symbols[row_J4[j, v], last + offset_J4[j, v]]
                        key = key * base_J4[j, v] + symbol
                    key_C[C], which_C[C], slot_C[C] = key, pattern_J[j], slot_of(key, pattern_J[j], slot_P1)
                    C += 1
            for c in range(C):
                first_C[c] = slots[slot_C[c]]
            for c in range(C):
                stored_C[c] = key_K[max(first_C[c], 0)]
            for c in range(C):
                k, p = first_C[c], which_C[c]
                if k >= 0 and stored_C[c] != key_C[c]:
                    k = look_up(key_C[c], p, slots, slot_P1, key_K)
                if k >= 0:
                    feature[n], row[n] = k, i * A + a
                    n += 1
    return n


@compiled
def sum_rows(feature_F: np.ndarray, value_F: np.ndarray, seen_K: np.ndarray, row: np.ndarray, total: np.ndarray) -> int:
    """The sum of the values of each feature: `row` gets the distinct features, `total` their sums; how many there are. `seen_K`
    has to be all zeros."""
    n = 0
    for f in range(len(feature_F)):
        k = feature_F[f]
        if seen_K[k] == 0:
            row[n], total[n] = k, value_F[f]
            n += 1
            seen_K[k] = n
        else:
            total[seen_K[k] - 1] += value_F[f]
    return n
