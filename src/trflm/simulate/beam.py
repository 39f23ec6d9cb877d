"""The beam search itself, compiled: strings of words from left to right over the places of an utterance. See search.py.

Shapes: J heard phones (J + 1 places), K strings of a beam, C candidates, W words, S strings kept in all.
"""

import numba
import numpy as np

START = -1  # the word before the first
MIX = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(29)
EMPTY = np.uint64(0x243F6A8885A308D3)  # the hash of the string without words: any large number


@numba.njit(cache=True)
def decode(J, arcs, bigram, weights, width, beam, deleted):
    """The strings of every place: (how many, hash, number, last word, log alpha, steering), each [J + 1] or [J + 1, K], and of
    every string the one before and its last word, [S]."""
    size = np.zeros(J + 1, np.int64)
    hashes, numbers = np.zeros((J + 1, width), np.uint64), np.zeros((J + 1, width), np.int64)
    lasts, alphas, steers = np.zeros((J + 1, width), np.int64), np.zeros((J + 1, width)), np.zeros((J + 1, width))
    before, word = (
        np.zeros((J + 1) * (deleted + 1) * width + 1, np.int64),
        np.zeros((J + 1) * (deleted + 1) * width + 1, np.int64),
    )
    n_strings = 1  # number 0 is the string without words
    for place in range(J + 1):
        # 1. One more word after the strings of earlier places.
        if place == 0:
            current = (np.full(1, EMPTY), np.zeros(1, np.int64), np.full(1, START), np.zeros(1), np.zeros(1))
        else:
            best = -np.inf
            for s in range(place):
                best = max(best, _promise(size[s], alphas[s], steers[s], arcs, s, place, bigram, weights))
            parts = _none()
            for s in range(place):
                if _promise(size[s], alphas[s], steers[s], arcs, s, place, bigram, weights) >= best - beam:
                    source = (
                        hashes[s, : size[s]],
                        numbers[s, : size[s]],
                        lasts[s, : size[s]],
                        alphas[s, : size[s]],
                        steers[s, : size[s]],
                    )
                    parts = _join(parts, _extend(source, arcs, s, place, bigram, weights, best - beam))
            current = _best(_sum_equal(parts), width)
            n_strings = _number(current, before, word, n_strings)
        # 2. Words of which nothing was heard, one more in each round: alpha is linear in what comes before.
        fresh = current
        for _ in range(deleted):
            if not len(fresh[0]):
                break
            best = (current[3] + current[4]).max()
            fresh = _best(_sum_equal(_extend(fresh, arcs, place, place, bigram, weights, best - beam)), width)
            n_strings = _number(fresh, before, word, n_strings)
            current = _sum_equal(_join(current, fresh))
        current = _best(current, width)
        n = len(current[0])
        size[place] = n
        hashes[place, :n], numbers[place, :n], lasts[place, :n], alphas[place, :n], steers[place, :n] = current
    return (size, hashes, numbers, lasts, alphas, steers), before[:n_strings], word[:n_strings]


@numba.njit(cache=True)
def _promise(n, alpha_K, steer_K, arcs, s, e, bigram, weights):
    """The best that may come of the strings at s over the arcs to e, by unigrams. Strings and arcs lie best first."""
    arc = arcs.first_JJ[s, e]
    if n == 0 or arc == arcs.last_JJ[s, e]:
        return -np.inf
    return alpha_K[0] + steer_K[0] + arcs.log_prob_A[arc] + weights[0] * bigram.unigram_W[arcs.word_A[arc]] + weights[1]


@numba.njit(cache=True)
def _extend(source, arcs, s, e, bigram, weights, least):
    """One more word after each string, over the arcs from s to e, of all that promise at least `least`."""
    hash_K, number_K, last_K, alpha_K, steer_K = source
    scale, per_word = weights
    first, last = arcs.first_JJ[s, e], arcs.last_JJ[s, e]
    promise_A = np.empty(last - first)
    for arc in range(first, last):
        promise_A[arc - first] = arcs.log_prob_A[arc] + scale * bigram.unigram_W[arcs.word_A[arc]] + per_word
    n = 0
    for k in range(len(hash_K)):
        for a in range(len(promise_A)):
            if alpha_K[k] + steer_K[k] + promise_A[a] < least:
                break
            n += 1
    hash_C, number_C, word_C = np.empty(n, np.uint64), np.empty(n, np.int64), np.empty(n, np.int64)
    alpha_C, steer_C = np.empty(n), np.empty(n)
    n = 0
    for k in range(len(hash_K)):
        for a in range(len(promise_A)):
            if alpha_K[k] + steer_K[k] + promise_A[a] < least:
                break
            word = arcs.word_A[first + a]
            mixed = (hash_K[k] ^ np.uint64(word + 1)) * MIX
            hash_C[n] = (mixed ^ (mixed >> SHIFT)) * MIX
            number_C[n], word_C[n] = number_K[k], word
            alpha_C[n] = alpha_K[k] + arcs.log_prob_A[first + a]
            steer_C[n] = steer_K[k] + scale * _bigram(bigram, last_K[k], word) + per_word
            n += 1
    return hash_C, number_C, word_C, alpha_C, steer_C


@numba.njit(cache=True)
def _bigram(bigram, before, word):
    """log p(word | word before): the stored bigram, or backoff and unigram."""
    key = (before + 1) * bigram.n_words + word
    at = np.searchsorted(bigram.key_G, key)
    if at < len(bigram.key_G) and bigram.key_G[at] == key:
        return bigram.log_prob_G[at]
    return bigram.backoff_W1[before + 1] + bigram.unigram_W[word]


@numba.njit(cache=True)
def _none():
    return np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0)


@numba.njit(cache=True)
def _join(a, b):
    return (
        np.concatenate((a[0], b[0])),
        np.concatenate((a[1], b[1])),
        np.concatenate((a[2], b[2])),
        np.concatenate((a[3], b[3])),
        np.concatenate((a[4], b[4])),
    )


@numba.njit(cache=True)
def _take(strings, index):
    return strings[0][index], strings[1][index], strings[2][index], strings[3][index], strings[4][index]


@numba.njit(cache=True)
def _sum_equal(strings):
    """Equal strings as one: their probabilities add up."""
    hash_C, _, _, alpha_C, _ = strings
    order = np.argsort(hash_C, kind="mergesort")
    first, total = np.empty(len(order), np.int64), np.empty(len(order))
    n = 0
    for i in range(len(order)):
        c = order[i]
        if n and hash_C[first[n - 1]] == hash_C[c]:
            total[n - 1] = np.logaddexp(total[n - 1], alpha_C[c])
        else:
            first[n], total[n] = c, alpha_C[c]
            n += 1
    joined = _take(strings, first[:n])
    return joined[0], joined[1], joined[2], total[:n], joined[4]


@numba.njit(cache=True)
def _best(strings, width):
    """The best `width` strings, best first."""
    return _take(strings, np.argsort(-(strings[3] + strings[4]), kind="mergesort")[:width])


@numba.njit(cache=True)
def _number(strings, before, word, n_strings):
    """Give the strings, which so far have the number of the string before them, numbers of their own."""
    _, number_K, last_K, _, _ = strings
    for k in range(len(number_K)):
        before[n_strings], word[n_strings] = number_K[k], last_K[k]
        number_K[k] = n_strings
        n_strings += 1
    return n_strings
