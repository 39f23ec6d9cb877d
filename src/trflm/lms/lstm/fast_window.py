"""The loss of a window (`train.window_loss`) by the quickest way on a CPU: the same sums, in another order and precision.

torch's LSTM on a CPU adds up the gradient of its weights step by step. Here the products with the inputs of all steps are one
product, and so is the gradient of a matrix (`recurrent.fast_recurrence`). The factors of products may be rounded to bf16.
Parameters, gates, memory cells, the sums of the softmax and the optimiser stay in fp32.

Shapes: S streams, T steps of a stream, N = T * S symbols, H hidden units, G = 4 H gates, I inputs of a layer.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from trflm.lms.lstm.model import LSTM, State, Weights
from trflm.lms.lstm.output_loss import SampledSoftmax, exact_loss
from trflm.recurrent.fast_recurrence import read_fast


@dataclass(frozen=True)
class FastWindowLoss:
    """`train.window_loss` with products in `dtype`; with `softmax` its sums are estimated from some of the words."""

    dtype: torch.dtype
    softmax: SampledSoftmax | None = None

    def __call__(self, lstm: LSTM, window_TS: Tensor, state: State, rng: Generator) -> tuple[Tensor, State]:
        h_TSH, state = read(lstm, window_TS[:-1], state, rng, self.dtype)
        h_NH, target_N = h_TSH.flatten(0, 1), window_TS[1:].flatten()
        weight_VH = lstm.output_matrix
        if self.softmax is None:
            return exact_loss(h_NH, weight_VH, lstm.output_bias, target_N, self.dtype), state
        return self.softmax.loss(h_NH, weight_VH, lstm.output_bias, target_N, self.dtype, rng), state


def read(lstm: LSTM, symbol_TS: Tensor, state: State, rng: Generator | None, dtype: torch.dtype) -> tuple[Tensor, State]:
    """`LSTM.read` with products in `dtype`; no gradient goes into or out of a state."""
    x_TSI = lstm.dropout(lstm.embedding(symbol_TS), rng)
    h, c = [], []
    for k, layer in enumerate(lstm.layers):
        weights = Weights.of(layer)
        gates_TSG = F.linear(*(x.to(dtype) for x in (x_TSI, weights.input, weights.bias)))
        running = [gates_TSG.shape[1]] * len(gates_TSG)
        h_NH, c_SH = read_fast(gates_TSG.flatten(0, 1), weights.recurrent, running, state.h_KSH[k], state.c_KSH[k])
        x_TSI = h_NH.view(*gates_TSG.shape[:2], -1)
        h.append(x_TSI[-1].detach())
        c.append(c_SH)
        x_TSI = lstm.dropout(x_TSI, rng)
    return x_TSI, State(torch.stack(h), torch.stack(c))
