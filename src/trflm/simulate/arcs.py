"""Every word that may explain a stretch of what was heard: arcs (from, to, word) with log P(heard[from:to] | word).

From each place of the utterance the lexicon's tree is walked level by level. A node k phones deep holds a band of the forward
column: the probabilities that its phones took k - missing .. k + slack of the phones heard. Nodes far behind the best of
their level are dropped.

Shapes: J heard phones, T nodes of the tree, D the band, A arcs, W words.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trflm.errors import InputError
from trflm.simulate.channel import Channel
from trflm.simulate.phones import PHONES
from trflm.simulate.pronunciations import Lexicon, Tree

try:
    import numba
except ImportError as error:
    raise InputError(f"the simulated recogniser needs numba ({error}): pip install numba") from error


@dataclass(frozen=True)
class ArcConfig:
    """What is kept."""

    beam: float = 7.0  # nats that the beginning of a word may be behind the best of its level, with the prior of its best word
    ends: float = 8.0  # nats that a word may be behind the best between the same two places
    at_most: int = 30  # arcs between two places
    missing: int = 3  # deleted phones of a word, at most (all of a short word)
    slack: int = 2  # inserted phones of a word, at most


class Arcs(NamedTuple):
    """Arcs by place, the best (with their prior) first: those from s to e are first[s, e] up to last[s, e]."""

    first_JJ: np.ndarray
    last_JJ: np.ndarray
    word_A: np.ndarray
    log_prob_A: np.ndarray


def find_arcs(
    heard_J: np.ndarray, lexicon: Lexicon, channel: Channel, prior_W: np.ndarray, ahead_T: np.ndarray, config: ArcConfig
) -> Arcs:
    """All arcs. `prior_W` is added to the log probability of a word when words are compared; `ahead_T` is its `look_ahead`."""
    J = len(heard_J)
    noise = (channel.config.insertion, channel.config.insertion / len(PHONES), channel.config.deletion)
    band = (config.missing, min(config.slack, J))
    found = [
        _walk(start, heard_J, lexicon.tree, prior_W, ahead_T, channel.substitution_PP, noise, band, config.beam, config.ends)
        for start in range(J + 1)
    ]
    start_A = np.repeat(np.arange(J + 1), [len(words) for words, _, _ in found])
    word_A, end_A, prob_A = (np.concatenate(column) for column in zip(*found, strict=True))
    # Several ways to say a word are one arc.
    key, inverse = np.unique((start_A * (J + 1) + end_A) * len(prior_W) + word_A, return_inverse=True)
    log_prob_A = np.log(np.bincount(inverse, prob_A))
    place_A, word_A = key // len(prior_W), key % len(prior_W)
    order = np.lexsort((-(log_prob_A + prior_W[word_A]), place_A))
    edges = np.searchsorted(place_A, np.arange((J + 1) ** 2 + 1))
    first, last = edges[:-1].reshape(J + 1, J + 1), edges[1:].reshape(J + 1, J + 1)
    return Arcs(first, np.minimum(last, first + config.at_most), word_A[order], log_prob_A[order])


def look_ahead(tree: Tree, prior_W: np.ndarray) -> np.ndarray:
    """[T] the prior of the best word at or below each node."""
    best_T = np.full(len(tree.phone_T), -np.inf)
    np.maximum.at(best_T, np.repeat(np.arange(len(best_T)), np.diff(tree.first_end_T1)), prior_W[tree.word_E])
    parent_T = np.repeat(np.arange(len(best_T)), np.diff(tree.first_child_T1))
    for node in range(len(best_T) - 1, 0, -1):
        parent = parent_T[node - 1]
        best_T[parent] = max(best_T[parent], best_T[node])
    return best_T


@numba.njit(cache=True)
def _walk(start, heard_J, tree, prior_W, ahead_T, substitution_PP, noise, band, beam, ends):
    """(words, ends, probabilities) of the arcs from one place."""
    J = len(heard_J)
    insertion, inserted, deletion = noise
    missing, slack = band
    D = missing + slack + 1  # column c stands for `depth - missing + c` phones taken
    words, places, probs = [0], [0], [0.0]  # an entry each to fix the types
    best_end = np.full(J + 1, -np.inf)
    nodes = np.zeros(1, np.int64)
    alphas = np.zeros((1, D))
    alphas[0, missing] = 1.0
    depth = 0
    while len(nodes):
        # 1. All children, one phone deeper.
        depth += 1
        n = 0
        for node in nodes:
            n += tree.first_child_T1[node + 1] - tree.first_child_T1[node]
        new_nodes, new_alphas, score = np.empty(n, np.int64), np.zeros((n, D)), np.empty(n)
        n, best = 0, -np.inf
        for row in range(len(nodes)):
            beta = alphas[row].copy()
            for c in range(1, D):
                beta[c] += inserted * beta[c - 1]
            for child in range(tree.first_child_T1[nodes[row]], tree.first_child_T1[nodes[row] + 1]):
                phone, top = tree.phone_T[child], 0.0
                for c in range(D):
                    taken = depth - missing + c
                    if taken < 0 or start + taken > J:
                        continue
                    value = deletion * beta[c + 1] if c + 1 < D else 0.0
                    if taken > 0:
                        value += (1 - deletion) * substitution_PP[phone, heard_J[start + taken - 1]] * beta[c]
                    new_alphas[n, c] = (1 - insertion) * value
                    top = max(top, new_alphas[n, c])
                if top > 0.0:
                    new_nodes[n], score[n] = child, np.log(top) + ahead_T[child]
                    best = max(best, score[n])
                    n += 1
                else:
                    new_alphas[n] = 0.0
        # 2. The best of them, and the words that end there.
        keep = np.flatnonzero(score[:n] >= best - beam)
        nodes, alphas = new_nodes[keep], new_alphas[keep]
        for row in range(len(nodes)):
            for end in range(tree.first_end_T1[nodes[row]], tree.first_end_T1[nodes[row] + 1]):
                for c in range(D):
                    if alphas[row, c] > 0.0:
                        place, word = start + depth - missing + c, tree.word_E[end]
                        prob = alphas[row, c] * tree.share_E[end]
                        total = np.log(prob) + prior_W[word]
                        if total >= best_end[place] - ends:
                            best_end[place] = max(best_end[place], total)
                            words.append(word)
                            places.append(place)
                            probs.append(prob)
    word_A, place_A, prob_A = np.array(words)[1:], np.array(places)[1:], np.array(probs)[1:]
    keep = np.flatnonzero(np.log(prob_A) + prior_W[word_A] >= best_end[place_A] - ends)
    return word_A[keep], place_A[keep], prob_A[keep]
