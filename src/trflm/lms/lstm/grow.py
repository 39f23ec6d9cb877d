"""A larger LSTM out of a smaller trained one: it gives the same probabilities at first, and has room to learn more.

That a network can grow without changing its function is from Net2Net (Chen et al. 2016), where units are copied; here they are
added. The units of the small model become the first of each layer. A matrix that leads from units into units is then

                 from old    from new
    into old     as given    0
    into new     random      random

so what is old never sees what is new, and no two new units are alike. "Random" is what the large model starts with anyway.
Words are old: the output matrix has zeros for new units. If it is also the embedding (tied), the new numbers of a word are
these zeros; if not, they are random, as nothing old reads them. The zeros learn from the first step, what lies behind them
from the second.

Shapes: G gates, R rows of a gate (units; or words, where G is 1), C columns (1 for a bias).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor

from trflm.errors import InputError
from trflm.lms.lstm.model import LSTM

GATES = 4  # blocks of rows in every parameter of a layer: input, forget, cell, output
EMBEDDING, RECURRENT, OUTPUT = "embedding.weight", "layers.0.weight_hh_l0", "output_weight"


def grown(small: Mapping[str, Any], fresh: LSTM) -> dict[str, Tensor]:
    """The state of an LSTM of the size of `fresh` that starts with the units of `small`, the state of one not larger."""
    check_smaller(small, fresh)
    large = fresh.state_dict()
    state = {name: _joined(small[name], large[name], GATES if name.startswith("layers.") else 1) for name in large}
    if not fresh.config.tied:
        state[EMBEDDING] = torch.cat([small[EMBEDDING], large[EMBEDDING][:, small[EMBEDDING].shape[1] :]], 1)
    return state


def _joined(small: Tensor, large: Tensor, n_gates: int) -> Tensor:
    """The table above, for every gate."""
    given_GRC, joined_GRC = (x.clone().view(n_gates, len(x) // n_gates, -1) for x in (small, large))
    _, R, C = given_GRC.shape
    joined_GRC[:, :R] = 0
    joined_GRC[:, :R, :C] = given_GRC
    return joined_GRC.view_as(large)


def check_smaller(small: Mapping[str, Any], fresh: LSTM) -> None:
    """InputError, or torch's RuntimeError, unless `fresh` can start with the units of `small`."""
    columns = {name: x.shape[1] for name, x in small.items() if isinstance(x, Tensor) and x.dim() == 2}
    sizes = {"embedding": columns.get(EMBEDDING, 0), "hidden": columns.get(RECURRENT, 0)}
    layers, tied = sum(name.endswith("weight_hh_l0") for name in small), OUTPUT not in small
    config = fresh.config
    larger = any(size > getattr(config, name) for name, size in sizes.items())
    if larger or (layers, tied) != (config.layers, config.tied):
        has = _described(**sizes, layers=layers, tied=tied)
        wanted = _described(config.embedding, config.hidden, config.layers, config.tied)
        raise InputError(
            f"it has {has}, [model] has {wanted}; start from an LSTM with the same layers and tied, and no larger embedding "
            "and hidden, or change [model]"
        )
    with torch.device("meta"):  # shapes alone
        LSTM(fresh.vocab, replace(config, **sizes), Generator()).load_state_dict(small, assign=True)


def _described(embedding: int, hidden: int, layers: int, tied: bool) -> str:
    return f"embedding = {embedding}, hidden = {hidden}, layers = {layers}, tied = {str(tied).lower()}"
