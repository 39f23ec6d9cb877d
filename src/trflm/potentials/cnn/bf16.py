"""The layers of the CNN potential in training with products in bf16, for CPUs that have instructions for it.

Factors and products are rounded to bf16 (8 bits), and so are the rows between the layers and their gradients: half the memory,
which is what all but the products wait for. Sums are taken in fp32 and rounded once, within a product by the instructions;
parameters, their gradients' use and the sum of the layers stay in fp32. Minimal filtering would lose too much: its points add
up inputs with weights of up to 5. So the stack is summed directly, all offsets of a filter side by side in one product:

    z_i = h_i [W_-1 | W_0 | W_1],     Y_i = ReLU(sum_o z_{i+o, o})

Shapes: R rows, C channels in, S channels out, Q = width * S, U distinct words, w filters a width, n layers.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trflm.potentials.cnn.bank import TableIndex
from trflm.potentials.cnn.layers import CHUNK, Rows, half_offsets
from trflm.speed import compiled


def applies(like: Tensor, pool_width: int) -> bool:
    return pool_width == 2 and like.dtype == torch.float32 and compiled.usable(like)


class SumRows16(torch.autograd.Function):
    """As `bank.SumRows`, with its own table, whose row 0 is the zeros beyond a sentence and row 1 + u that of word u."""

    @staticmethod
    def forward(ctx, y_U: Tensor, bank: Tensor, index: TableIndex, n_rows: int, n_pairs: int) -> Tensor:
        bank = bank.bfloat16()
        table = y_U.new_empty(1 + len(y_U), bank.shape[1])
        table[0] = 0
        torch.mm(y_U, bank, out=table[1:])
        ctx.save_for_backward(y_U, bank)
        ctx.index, ctx.n_pairs = index, n_pairs
        rows = table.view(len(table) * n_pairs, -1)
        return F.embedding_bag(index.inputs, rows, index.input_bags, mode="sum").view(n_rows, -1)

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        y_U, bank = ctx.saved_tensors
        index: TableIndex = ctx.index
        grad = grads[0].view(-1, bank.shape[1] // ctx.n_pairs)
        into_table = F.embedding_bag(index.outputs, grad, index.output_bags, mode="sum").view(len(y_U), -1)
        return into_table @ bank.t(), (into_table.t() @ y_U).t().float(), None, None, None


class Stack16(torch.autograd.Function):
    """Max-pooling of width 2 with ReLU, then the layers of the stack: [R, C] the bank -> [R, S] sum_j a_j Y_j, zero between
    sentences. Of equal values under the pooling the first is the winner."""

    @staticmethod
    def forward(ctx, f_RC: Tensor, skip_nS: Tensor, rows: Rows, *weights: Tensor) -> Tensor:
        from trflm.potentials.cnn import bf16_loops

        h_RC, keep_R = torch.empty_like(f_RC), rows.inside_R.numpy()
        bf16_loops.pool_rows(bits(f_RC), keep_R, bits(h_RC))
        total_RS, layers = torch.zeros(rows.n_rows, skip_nS.shape[1]), [h_RC]
        for weight, a_S in zip(weights, skip_nS, strict=True):
            z_RQ, y_RS = layers[-1] @ flat(weight), torch.empty_like(total_RS, dtype=torch.bfloat16)
            bf16_loops.sum_offsets(bits(z_RQ), offsets(weight), keep_R, a_S.numpy(), bits(y_RS), total_RS.numpy())
            layers.append(y_RS)
        ctx.save_for_backward(f_RC, skip_nS, *weights, *layers)
        ctx.rows = rows
        return total_RS

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from trflm.potentials.cnn import bf16_loops

        n = (len(ctx.saved_tensors) - 3) // 2
        f_RC, skip_nS, *weights = ctx.saved_tensors[: 2 + n]
        layers, keep_R = ctx.saved_tensors[2 + n :], ctx.rows.inside_R.numpy()
        into_skip_nS, into_weights = torch.zeros_like(skip_nS), []
        into_y_RS = torch.zeros_like(layers[-1])  # from the layer above
        into_z_RQ = into_y_RS
        for j in reversed(range(n)):
            weight, h_RC, y_RS = weights[j], layers[j], layers[j + 1]
            into_z_RQ = h_RC.new_zeros(len(h_RC), weight[0].numel())
            a_S, into_a_S = skip_nS[j].numpy(), into_skip_nS[j].numpy()
            into_y = bits(into_y_RS), grads[0].contiguous().numpy()
            bf16_loops.spread_offsets(*into_y, bits(y_RS), keep_R, a_S, offsets(weight), into_a_S, bits(into_z_RQ))
            into_weights.append((h_RC.t() @ into_z_RQ).float().view_as(weight))
            if j > 0:
                into_y_RS = into_z_RQ @ flat(weight).t()
        w_QC, into_f_RC, before_C = flat(weights[0]).t(), torch.empty_like(f_RC), torch.zeros(f_RC.shape[1])
        for a in range(0, len(f_RC), CHUNK):
            into_h = into_z_RQ[a : a + CHUNK] @ w_QC
            bf16_loops.unpool_rows(a, bits(into_h), bits(f_RC), keep_R, before_C.numpy(), bits(into_f_RC))
        return into_f_RC, into_skip_nS, None, *into_weights[::-1]


def flat(weight: Tensor) -> Tensor:
    """[C, Q] the filter, offset after offset."""
    return weight.flatten(1).bfloat16()


def offsets(weight: Tensor) -> np.ndarray:
    """Those at which a filter looks."""
    return np.array(half_offsets(weight.shape[1]))


def bits(x: Tensor) -> np.ndarray:
    """The 16 bits of each number."""
    return x.detach().view(torch.uint16).numpy()
