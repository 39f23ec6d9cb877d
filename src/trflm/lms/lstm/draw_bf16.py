"""Sentences drawn from an LSTM with products in bf16: of a layer one for what it reads and what it remembers together.

Shapes: S sentences that go on, R rows, S and some more; I inputs of a layer, H units, G = 4 H.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from trflm.language_model import check_ends
from trflm.lms.lstm.output_bf16 import ALIKE, Output16
from trflm.recurrent.recurrence import next_states

if TYPE_CHECKING:
    from trflm.lms.lstm.model import LSTM

Step = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]  # (x_RI, h_RH, c_RH) -> (h_RH, c_RH)


def draw_columns(lstm: "LSTM", n: int, rng: Generator, length: int | None) -> list[Tensor]:
    """[n] the symbols of each place, the end for sentences that are over; with `length` none ends."""
    output, steps = Output16(lstm.output_matrix, lstm.output_bias), [step_of(layer) for layer in lstm.layers]
    going, columns = torch.arange(n), []
    symbol_S, keep_R = torch.full((n,), lstm.end), padded(torch.arange(n))
    h, c = ([torch.zeros(len(keep_R), lstm.config.hidden) for _ in steps] for _ in range(2))
    while len(going) and (length is None or len(columns) < length):
        x = lstm.embedding.weight.index_select(0, padded(symbol_S))
        for k, step in enumerate(steps):
            x, c[k] = step(x, h[k].index_select(0, keep_R), c[k].index_select(0, keep_R))
            h[k] = x
        level_S = torch.rand(len(going), generator=rng, dtype=torch.float64)
        symbol_S = output.draw(x, level_S, end=length is None and len(columns) > 0)
        columns.append(torch.full((n,), lstm.end).index_copy(0, going, symbol_S))
        if length is None:
            check_ends(len(columns))
        goes_on = (symbol_S != lstm.end).nonzero().squeeze(1)
        going, symbol_S, keep_R = going[goes_on], symbol_S[goes_on], padded(goes_on)
    return columns


def padded(index_S: Tensor) -> Tensor:
    """[R] as many rows as a product is prepared for."""
    return F.pad(index_S, (0, -len(index_S) % ALIKE))


def step_of(layer: nn.Module) -> Step:
    """One step of a layer."""
    assert isinstance(layer, nn.LSTM)
    w_input, w_recurrent, b_input, b_recurrent = (x.detach() for x in layer.all_weights[0])
    weight_JG, bias_1G = torch.cat([w_input, w_recurrent], 1).bfloat16().t(), (b_input + b_recurrent)[None]

    def step(x_RI: Tensor, h_RH: Tensor, c_RH: Tensor) -> tuple[Tensor, Tensor]:
        gates_RG = torch.cat([x_RI, h_RH], 1).bfloat16() @ weight_JG
        every = torch.arange(len(h_RH))
        return next_states(gates_RG.float(), every, bias_1G, torch.zeros_like(every), c_RH)

    return step
