"""The exact likelihood of word strings: P(heard | words), over all alignments and all ways to say each word.

Strings that begin alike share the work: one forward column for each distinct beginning.

Shapes: J heard phones, R rows (a beginning and a way to say its last word).
"""

from collections.abc import Sequence

import numpy as np

from trflm.simulate.channel import Channel
from trflm.simulate.pronunciations import Lexicon


def string_likelihoods(
    strings: Sequence[tuple[int, ...]], heard_J: np.ndarray, lexicon: Lexicon, channel: Channel
) -> np.ndarray:
    """[number of strings] P(heard | words of the string)."""
    column: dict[tuple[int, ...], np.ndarray] = {(): channel.start(len(heard_J))}
    for length in range(1, max((len(string) for string in strings), default=0) + 1):
        beginnings = list(dict.fromkeys(string[:length] for string in strings if len(string) >= length))
        rows = [(b, way) for b, beginning in enumerate(beginnings) for way in lexicon.ways[beginning[-1]]]
        # One row for each way to say the last word, advanced phone by phone while it has one; longest first.
        rows.sort(key=lambda row: -len(row[1]))
        alpha = np.stack([column[beginnings[b][:-1]] for b, _ in rows])
        lengths = np.array([len(way) for _, way in rows])
        for k in range(lengths[0]):
            going = int((lengths > k).sum())
            phone_R = np.array([way[k] for _, way in rows[:going]])
            heard_RJ = np.broadcast_to(heard_J, (going, len(heard_J)))
            alpha[:going] = channel.advance(alpha[:going], phone_R, heard_RJ)
        total = np.zeros((len(beginnings), len(heard_J) + 1))
        share = np.array([1 / len(lexicon.ways[beginnings[b][-1]]) for b, _ in rows])
        np.add.at(total, np.array([b for b, _ in rows]), alpha * share[:, None])
        column.update(zip(beginnings, total, strict=True))
    if not strings:
        return np.zeros(0)
    return channel.finish(np.stack([column[string] for string in strings]))
