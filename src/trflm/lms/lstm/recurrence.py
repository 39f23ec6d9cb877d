"""One layer of an LSTM over many texts at once: level by level, all states of one time step in one product.

    [i f g o] = gates + U h_before,   c = sigmoid(f) c_before + sigmoid(i) tanh(g),   h = sigmoid(o) tanh(c)

The states of a level follow states of the level before it. They are sentences packed longest first (state j follows state j of
the level before), or the prefixes of a tree (a state follows its parent, and several may follow the same). The inputs' share
of the gates, W x + b, is known for all states before the first step.

Shapes: P states in all, H units, the 4H gates in torch's order i, f, g, o.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def read_layer(gates_PG: Tensor, recurrent_GH: Tensor, sizes: Sequence[int], parent_P: Tensor | None = None) -> Tensor:
    """[P, H] h after each state's input; `sizes` are the levels' numbers of states. The first level follows the zero state.

    Without `parent_P` the states are packed sentences, longest first: `sizes` never rises.
    """
    h = c = gates_PG.new_empty(0)
    before, low, levels = 0, 0, []  # where the level before starts, where this one does
    for gates in gates_PG.split(list(sizes)):
        if not levels:
            i, _, g, o = gates.chunk(4, 1)
            c = i.sigmoid() * g.tanh()
        elif parent_P is None:
            i, f, g, o = torch.addmm(gates, h[: len(gates)], recurrent_GH.t()).chunk(4, 1)
            c = f.sigmoid() * c[: len(gates)] + i.sigmoid() * g.tanh()
        else:
            parent = parent_P[low : low + len(gates)] - before
            i, f, g, o = (gates + F.linear(h, recurrent_GH)[parent]).chunk(4, 1)  # U h once for each parent
            c = f.sigmoid() * c[parent] + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        before, low = low, low + len(gates)
        levels.append(h)
    return torch.cat(levels)
