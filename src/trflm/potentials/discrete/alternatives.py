"""Other words in a word's place: which features cover the place of each word of a batch if another word stands there.

A word has at most 64 features of the paper's set, so many alternatives for every word of a text can be compared at the cost of
looking those up; the rest of phi does not depend on the word.

Shapes: as in `features`; A alternatives for each word.
"""

import numpy as np
import torch
from torch import Tensor

from trflm.potentials.discrete.features import Features, Places
from trflm.speed import compiled


def find_alternatives(features: Features, places: Places, word_NA: Tensor) -> tuple[Tensor, Tensor]:
    """([F] features, [F] the alternative n A + a that has each)."""
    if not len(features):
        return places.position_M[:0], places.position_M[:0]
    find = by_compiled_loops if compiled.usable(features.key_K) else by_torch
    return find(features, places, word_NA)


def by_compiled_loops(features: Features, places: Places, word_NA: Tensor) -> tuple[Tensor, Tensor]:
    from trflm.potentials.discrete.features_loops import find_alternatives as find

    most = word_NA.numel() * int(features.columns.order_J.sum())
    feature, row = np.empty(most, np.int32), np.empty(most, np.int32)
    n = find(
        places.symbols.numpy(), places.position_M.numpy(), remaining(places).numpy(), places.place_N.numpy(),
        word_NA.numpy(), features.alphabet.class_of(word_NA.device).numpy(), *features.columns, *features.table,
        features.key_K.numpy(), feature, row,
    )  # fmt: skip
    return torch.from_numpy(feature[:n]).long(), torch.from_numpy(row[:n]).long()


def by_torch(features: Features, places: Places, word_NA: Tensor) -> tuple[Tensor, Tensor]:
    """Column by column, and symbol by symbol of a column."""
    own = [word_NA, features.alphabet.class_of(word_NA.device)[word_NA] if len(places.symbols) > 1 else word_NA]
    remaining_M = remaining(places)
    found, rows = [], []
    for p, pattern, gaps in features.gaps:
        for u, offset in enumerate(gaps):
            reaches_N = places.position_M[places.place_N] >= offset - gaps[0]
            n = (reaches_N & (remaining_M[places.place_N] >= -offset)).nonzero().squeeze(1)
            key = torch.zeros_like(word_NA[n])
            for v, symbol in enumerate(pattern.symbols):
                kind = "wc".index(symbol)
                around = places.symbols[kind][places.place_N[n] - offset + gaps[v]][:, None]
                key = key * features.alphabet.base(symbol) + (own[kind][n] if u == v else around)
            row = n[:, None] * word_NA.shape[1] + torch.arange(word_NA.shape[1], device=n.device)
            feature, hit = features.of_keys(p, key.flatten())
            found.append(feature)
            rows.append(row.flatten()[hit])
    return torch.cat(found), torch.cat(rows)


def remaining(places: Places) -> Tensor:
    """[M] how many places of its sentence follow each place, the end among them."""
    is_last_M = torch.cat([places.position_M[1:] == 0, torch.ones_like(places.position_M[:1], dtype=torch.bool)])
    last = is_last_M.nonzero().squeeze(1)
    length = places.position_M[last] + 1
    return torch.repeat_interleave(length - 1, length, output_size=len(is_last_M)) - places.position_M
