"""The layers of the CNN potential in training with products in bf16, for CPUs that have instructions for it.

Factors and products are rounded to bf16 (8 bits), within a product sums are kept in fp32 by the instructions; parameters, their
gradients' use, and what is added up between products stay in fp32. Minimal filtering would lose too much: its points add up
inputs with weights of up to 5. So the stack is summed directly, all offsets of a filter side by side in one product:

    z_i = h_i [W_-1 | W_0 | W_1],     out_i = ReLU(sum_o z_{i+o, o})

Rows are made, rounded and multiplied in parts that stay in the cache.

Shapes: R rows, C channels in, S channels out, Q = width * S, U distinct words, T = P * w numbers a word in the table.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from trflm.potentials.cnn.bank import TableIndex
from trflm.potentials.cnn.layers import CHUNK, Rows, half_offsets
from trflm.speed import compiled

WORDS = 128  # of the table at once


def applies(like: Tensor, pool_width: int) -> bool:
    return pool_width == 2 and like.dtype == torch.float32 and compiled.usable(like)


def table_rows(y_U: Tensor, bank: Tensor, out_UT: Tensor) -> None:
    """out = y F."""
    bank = bank.bfloat16()
    for a in range(0, len(y_U), WORDS):
        out_UT[a : a + WORDS] = y_U[a : a + WORDS].bfloat16() @ bank


class SumRows16(torch.autograd.Function):
    """As `bank.SumRows`."""

    @staticmethod
    def forward(ctx, y_U: Tensor, bank: Tensor, table: Tensor, index: TableIndex, n_rows: int) -> Tensor:
        ctx.save_for_backward(y_U, bank)
        ctx.index = index
        return F.embedding_bag(index.inputs, table, index.input_bags, mode="sum").view(n_rows, -1)

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        y_U, bank = ctx.saved_tensors
        index: TableIndex = ctx.index
        n_pairs = len(index.output_bags) // len(y_U)
        grad = grads[0].view(-1, bank.shape[1] // n_pairs)
        into_UT = F.embedding_bag(index.outputs, grad, index.output_bags, mode="sum").view(len(y_U), -1).bfloat16()
        into_y_U = into_UT @ bank.bfloat16().t()
        return into_y_U.float(), (into_UT.t() @ y_U.bfloat16()).float().t(), None, None, None


class Convolution16(torch.autograd.Function):
    """As `layers.Convolution`."""

    @staticmethod
    def forward(ctx, h_RC: Tensor, weight: Tensor, rows: Rows) -> Tensor:
        h_RC = h_RC.bfloat16()
        z_RQ = h_RC @ flat(weight)
        out_RS = sum_offsets(z_RQ, weight, rows)
        ctx.save_for_backward(h_RC, weight, out_RS)
        ctx.rows = rows
        return out_RS

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        h_RC, weight, out_RS = ctx.saved_tensors
        into_z_RQ = spread_offsets(grads[0], out_RS, weight)
        into_h_RC = into_z_RQ @ flat(weight).t()
        return into_h_RC.float(), (h_RC.t() @ into_z_RQ).float().view_as(weight), None


class PooledConvolution16(torch.autograd.Function):
    """As `layers.PooledConvolution`."""

    @staticmethod
    def forward(ctx, f_RC: Tensor, weight: Tensor, rows: Rows) -> Tensor:
        keep_R1, w_CQ = rows.inside_R.to(f_RC.dtype)[:, None], flat(weight)
        h_RC = torch.empty(f_RC.shape, dtype=torch.bfloat16)
        h_RC[-1] = 0
        z_RQ = torch.zeros(len(f_RC), w_CQ.shape[1], dtype=torch.bfloat16)
        for a, b in parts(len(f_RC) - 1):
            pooled = torch.maximum(f_RC[a:b], f_RC[a + 1 : b + 1]).clamp_(min=0)
            h_RC[a:b] = pooled.mul_(keep_R1[a:b])
            torch.mm(h_RC[a:b], w_CQ, out=z_RQ[a:b])
        out_RS = sum_offsets(z_RQ, weight, rows)
        ctx.save_for_backward(f_RC, h_RC, weight, out_RS)
        ctx.rows = rows
        return out_RS

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        from trflm.potentials.cnn.bf16_loops import unpool_rows

        f_RC, h_RC, weight, out_RS = ctx.saved_tensors
        into_z_RQ = spread_offsets(grads[0], out_RS, weight)
        w_QC = flat(weight).t().contiguous()
        keep_R, before_C = ctx.rows.inside_R.to(f_RC.dtype), f_RC.new_zeros(f_RC.shape[1])
        into_f_RC = torch.empty_like(f_RC)
        for a, b in parts(len(f_RC)):
            into_h = (into_z_RQ[a:b] @ w_QC).float()
            unpool_rows(a, *(tensor.numpy() for tensor in (into_h, f_RC, keep_R, before_C, into_f_RC)))
        return into_f_RC, (h_RC.t() @ into_z_RQ).float().view_as(weight), None


def flat(weight: Tensor) -> Tensor:
    """[C, Q] the filter, offset after offset."""
    return weight.flatten(1).bfloat16()


def sum_offsets(z_RQ: Tensor, weight: Tensor, rows: Rows) -> Tensor:
    """[R, S] ReLU(sum_o z_{i+o, o}), zero between sentences."""
    out_RS = torch.zeros(len(z_RQ), weight.shape[2])
    a, b = rows.gap, rows.n_rows - rows.gap
    for z_RS, offset in zip(z_RQ.split(weight.shape[2], 1), half_offsets(weight.shape[1]), strict=True):
        out_RS[a:b] += z_RS[a + offset : b + offset]
    out_RS.relu_()
    out_RS[rows.gaps] = 0
    return out_RS


def spread_offsets(grad_RS: Tensor, out_RS: Tensor, weight: Tensor) -> Tensor:
    """[R, Q] what z is given by the outputs it went into."""
    grad_RS = torch.ops.aten.threshold_backward(grad_RS, out_RS, 0).bfloat16()
    S, R = weight.shape[2], len(grad_RS)
    into_z_RQ = torch.zeros(R, weight.shape[1] * S, dtype=torch.bfloat16)
    for o, offset in enumerate(half_offsets(weight.shape[1])):
        first, last = max(offset, 0), R + min(offset, 0)
        into_z_RQ[first:last, o * S : (o + 1) * S] = grad_RS[first - offset : last - offset]
    return into_z_RQ


def parts(n_rows: int) -> list[tuple[int, int]]:
    return [(a, min(a + CHUNK, n_rows)) for a in range(0, n_rows, CHUNK)]
