"""The most likely word strings for what was heard: a beam search from left to right over places in the utterance.

At place j the beam holds word strings h with alpha_h[j] = P(the words of h are heard as the first j phones), summed over all
ways to cut the utterance into words, because equal strings are merged. With

    score = log alpha + scale * (log prior of the words) + per_word * words

the best `width` strings of each place are kept. The prior only steers: it decides what gets into the list. The likelihood of
every string in the list is computed again, exactly and without pruning.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from trflm.simulate.arcs import ArcConfig, find_arcs, look_ahead
from trflm.simulate.beam import decode
from trflm.simulate.channel import Channel
from trflm.simulate.exact import string_likelihoods
from trflm.simulate.prior import Prior
from trflm.simulate.pronunciations import Lexicon


@dataclass(frozen=True)
class SearchConfig:
    """What is kept, and how the prior steers."""

    width: int = 120  # strings of a place
    beam: float = 9.0  # nats behind the best of a place
    scale: float = 0.7  # weight of the prior
    per_word: float = 0.0
    deleted: int = 2  # whole words in a row of which nothing was heard, at most
    arcs: ArcConfig = field(default_factory=ArcConfig)


@dataclass(frozen=True)
class Found:
    """A word string with its exact log likelihood and the log probability the prior gives it."""

    words: tuple[int, ...]
    acoustic: float
    prior: float


class Recogniser:
    """What is known before anything is heard."""

    def __init__(self, lexicon: Lexicon, channel: Channel, prior: Prior, config: SearchConfig) -> None:
        self.lexicon, self.channel, self.prior, self.config = lexicon, channel, prior, config
        self.steer_W = config.scale * prior.unigram_W
        self.ahead_T = look_ahead(lexicon.tree, self.steer_W)

    def recognise(self, heard: Sequence[int], n: int) -> list[Found]:
        """The n best strings by score, best first; strings without words are left out."""
        config, channel, prior = self.config, self.channel, self.prior
        heard_J = np.array(heard, np.int64)
        J = len(heard_J)
        arcs = find_arcs(heard_J, self.lexicon, channel, self.steer_W, self.ahead_T, config.arcs)
        weights = (config.scale, config.per_word)
        beams, before, word = decode(J, arcs, prior.table(), weights, config.width, config.beam, config.deleted)
        # The end: what is left was inserted. One string may have come to an end at several places.
        total: dict[int, tuple[float, int, float]] = {}  # hash -> (log alpha, number, steering)
        for place, (size, *columns) in enumerate(zip(*beams, strict=True)):
            tail = np.log(channel.tail(J - place)) if channel.tail(J - place) > 0 else -np.inf
            for hashed, number, last, alpha, steer in zip(*(column[:size].tolist() for column in columns), strict=True):
                if number and tail > -np.inf:
                    known = total.get(hashed, (-np.inf, number, steer + config.scale * prior.end(last)))
                    total[hashed] = (float(np.logaddexp(known[0], alpha + tail)), *known[1:])
        best = sorted(total.values(), key=lambda entry: -(entry[0] + entry[2]))[: 2 * n]
        # The likelihoods once more, exactly.
        strings = [words_of(number, before, word) for _, number, _ in best]
        acoustic = np.log(string_likelihoods(strings, heard_J, self.lexicon, channel))
        order = np.argsort(-(acoustic + [steer for _, _, steer in best]), kind="stable")[:n]
        return [Found(strings[k], float(acoustic[k]), prior.sentence(strings[k])) for k in order]


def words_of(number: int, before: np.ndarray, word: np.ndarray) -> tuple[int, ...]:
    """The words of a string of `decode`."""
    words = []
    while number:
        words.append(int(word[number]))
        number = int(before[number])
    return tuple(reversed(words))
