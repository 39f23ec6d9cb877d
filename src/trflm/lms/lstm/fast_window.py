"""The loss of a window (`train.window_loss`) by the quickest way on a CPU: the same sums, in another order and precision.

torch's LSTM on a CPU adds up the gradient of its weights step by step. Here the products with the inputs of all steps are one
product, and so is the gradient of a matrix. The factors of products may be rounded to bf16, for which some CPUs have
instructions that are twice as fast; a product is summed in fp32, then rounded to bf16 too. Parameters, gates, memory cells,
the sums of the softmax and the optimiser stay in fp32.

Shapes: S streams, T steps of a stream, N = T * S symbols, H hidden units, G = 4 H gates, I inputs of a layer.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from trflm.lms.lstm.model import LSTM, State, Weights
from trflm.lms.lstm.output_loss import SampledSoftmax, exact_loss
from trflm.recurrent.recurrence import advance, retreat


@dataclass(frozen=True)
class FastWindowLoss:
    """`train.window_loss` with products in `dtype`; with `softmax` its sums are estimated from some of the words."""

    dtype: torch.dtype
    softmax: SampledSoftmax | None = None

    def __call__(self, lstm: LSTM, window_TS: Tensor, state: State, rng: Generator) -> tuple[Tensor, State]:
        h_TSH, state = read(lstm, window_TS[:-1], state, rng, self.dtype)
        h_NH, target_N = h_TSH.flatten(0, 1), window_TS[1:].flatten()
        weight_VH = lstm.embedding.weight if lstm.output_weight is None else lstm.output_weight
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
        x_TSI, c_SH = Recurrence.apply(gates_TSG, weights.recurrent, state.h_KSH[k], state.c_KSH[k])
        h.append(x_TSI[-1].detach())
        c.append(c_SH)
        x_TSI = lstm.dropout(x_TSI, rng)
    return x_TSI, State(torch.stack(h), torch.stack(c))


class Recurrence(torch.autograd.Function):
    """(the inputs' share of the gates, W, h and c before) -> (h after each step, c after the last). Products in the type of the
    gates that are given, everything else in that of W."""

    @staticmethod
    def forward(ctx, gates_TSG: Tensor, weight_GH: Tensor, h_SH: Tensor, c_SH: Tensor) -> tuple[Tensor, Tensor]:
        dtype, first_h_SH, first_c_SH = gates_TSG.dtype, h_SH, c_SH
        gates_TSG = gates_TSG.to(weight_GH.dtype, copy=True)
        weight_GH = weight_GH.to(dtype)
        h_TSH, c_TSH = (h_SH.new_empty(len(gates_TSG), *h_SH.shape) for _ in range(2))
        for gates_SG, next_h_SH, next_c_SH in zip(gates_TSG, h_TSH, c_TSH, strict=True):
            gates_SG += h_SH.to(dtype) @ weight_GH.t()
            advance(gates_SG, c_SH, next_c_SH, next_h_SH)
            h_SH, c_SH = next_h_SH, next_c_SH
        ctx.save_for_backward(gates_TSG, h_TSH, c_TSH, weight_GH, first_h_SH, first_c_SH)
        c_SH = c_SH.clone()
        ctx.mark_non_differentiable(c_SH)
        return h_TSH, c_SH

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        gates_TSG, h_TSH, c_TSH, weight_GH, first_h_SH, first_c_SH = ctx.saved_tensors
        into_TSG = torch.empty_like(gates_TSG, dtype=weight_GH.dtype)
        into_h_SH, into_c_SH = torch.zeros_like(first_h_SH), torch.zeros_like(first_c_SH)
        into_SG = torch.empty_like(gates_TSG[0])
        for t in reversed(range(len(gates_TSG))):
            into_h_SH += grads[0][t]
            c_before_SH = c_TSH[t - 1] if t else first_c_SH
            retreat(gates_TSG[t], c_before_SH, c_TSH[t], into_h_SH, into_c_SH, into_SG)
            into_TSG[t] = into_SG
            into_h_SH.copy_(into_TSG[t] @ weight_GH)
        h_before_TSH = torch.cat([first_h_SH[None], h_TSH[:-1]]).to(weight_GH.dtype)
        into_weight_GH = into_TSG.flatten(0, 1).t() @ h_before_TSH.flatten(0, 1)
        return into_TSG, into_weight_GH.to(h_TSH.dtype), None, None
