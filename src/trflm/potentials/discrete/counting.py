"""Which features a text has: its n-grams of each pattern that occur often enough, counted in bounded memory.

Pattern after pattern, and within a pattern share after share of its keys (by a hash of the key), so that at no time more than
about AT_ONCE keys are held: the text is read once for each share, in parts. A share is sorted, and runs of equal keys are
counted.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from trflm.errors import InputError
from trflm.potentials.discrete.features import Alphabet, Features, Places, key_at
from trflm.potentials.discrete.patterns import Pattern
from trflm.text import Text

AT_ONCE = 1 << 23  # keys
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def count_features(
    text: Text, patterns: Sequence[Pattern], alphabet: Alphabet, min_counts: Sequence[int], at_once: int = AT_ONCE
) -> Features:
    """The features of a text: what of each pattern occurs at least so often, by order; the last of `min_counts` holds for all
    orders above."""
    keys: list[np.ndarray] = []
    for pattern in patterns:
        alphabet.check(pattern)
        least = min_counts[min(pattern.order, len(min_counts)) - 1]
        n_shares = math.ceil(len(pattern.gaps) * (text.n_words + len(text)) / at_once)
        kept = [keys_of_share(text, pattern, alphabet, share, n_shares, least) for share in range(n_shares)]
        keys.append(np.sort(np.concatenate(kept)))
    if not any(len(key) for key in keys):
        raise InputError(
            f"no feature occurs as often as min_counts = {list(min_counts)} asks; lower it, or give more training text"
        )
    first_P1 = np.cumsum([0, *(len(key) for key in keys)])
    return Features(tuple(patterns), alphabet, torch.from_numpy(np.concatenate(keys)), torch.from_numpy(first_P1))


def keys_of_share(text: Text, pattern: Pattern, alphabet: Alphabet, share: int, n_shares: int, least: int) -> np.ndarray:
    """The keys of one share that occur at least `least` times, each once."""
    parts = []
    for part in text.parts():
        places = alphabet.read(part)
        for gaps in pattern.gaps:
            end, key = key_at(places, pattern, gaps, alphabet)
            key = key[has_word(end, pattern, gaps, places, alphabet)].numpy()
            if n_shares > 1:
                mixed = (key.astype(np.uint64) * MULTIPLIER) >> np.uint64(32)
                key = key[mixed % np.uint64(n_shares) == share]
            parts.append(key)
    key = np.sort(np.concatenate(parts))
    first = np.flatnonzero(np.diff(key, prepend=-1))  # of each run of equal keys
    return key[first[np.diff(first, append=len(key)) >= least]]


def has_word(end: Tensor, pattern: Pattern, gaps: tuple[int, ...], places: Places, alphabet: Alphabet) -> Tensor:
    """Whether what ends at these places is more than markers."""
    word_M = places.symbols[0]
    return torch.stack([word_M[end + offset] < alphabet.n_words for offset in gaps]).any(0)
