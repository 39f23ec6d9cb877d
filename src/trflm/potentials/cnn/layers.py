"""The layers of the CNN potential on packed sentences, with their gradients: max-pooling, and half convolutions with ReLU.

Sentences stand one below the other with rows of zeros between them, as many as a filter can look beyond an end. So a shifted
sentence is a slice, and every layer ends by making those rows zero again.

Shapes: R rows, C channels in, S channels out.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from trflm.potentials.cnn import winograd
from trflm.speed import compiled
from trflm.speed.products import products
from trflm.text import Batch

CHUNK = 256  # rows at once: what is computed from them stays in the cache


def half_offsets(width: int) -> range:
    """Where a half convolution of this width looks, relative to its own position: width - 1 zeros of padding in all,
    the odd one on the right (as TensorFlow's SAME and the authors' code have it)."""
    left = (width - 1) // 2
    return range(-left, width - left)


class Rows:
    """Where the words of a batch stand: `gap` empty rows before, between and after sentences, for filters of these widths."""

    def __init__(self, batch: Batch, widths: list[int]) -> None:
        self.gap = gap = max(1, *(max(-reach.start, reach.stop - 1) for reach in map(half_offsets, widths)))
        self.row_N = torch.arange(batch.n_words, device=batch.device) + gap * (batch.sentence_N + 1)
        n_rows = batch.n_words + gap * (len(batch) + 1)
        self.n_rows = n_rows + winograd.rows_missing(n_rows)
        self.inside_R = torch.zeros(self.n_rows, dtype=torch.bool, device=batch.device)
        self.inside_R[self.row_N] = True
        self.gaps = (~self.inside_R).nonzero().squeeze(1)


class MaxPool(torch.autograd.Function):
    """ReLU(max over the window of f). The ReLU of the bank commutes with the maximum, so it is applied once, last, and
    the zeros beyond the sentence never win against it. Of equal values the first is the winner."""

    @staticmethod
    def forward(ctx, f_RC: Tensor, width: int, rows: Rows) -> Tensor:
        reach = half_offsets(width)
        pooled_RC = torch.empty_like(f_RC)
        for a, b in chunks(rows):
            pooled = torch.clamp(f_RC[a + reach.start : b + reach.start], min=0, out=pooled_RC[a:b])
            for offset in reach[1:]:
                torch.maximum(pooled, f_RC[a + offset : b + offset], out=pooled)
        pooled_RC[rows.gaps] = 0
        ctx.save_for_backward(f_RC, pooled_RC)
        ctx.reach, ctx.rows = reach, rows
        return pooled_RC

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, None, None]:
        f_RC, pooled_RC = ctx.saved_tensors
        into_f_RC = torch.zeros_like(f_RC)
        for a, b in chunks(ctx.rows):
            seen = [f_RC[a + offset : b + offset] for offset in ctx.reach]
            best, leads = seen[0], []  # by how much each later place of the window exceeds the best before it
            for place in seen[1:]:
                leads.append(place - best)
                best = torch.maximum(best, place) if len(leads) < len(seen) - 1 else best
            left = torch.ops.aten.threshold_backward(grads[0][a:b], pooled_RC[a:b], 0)  # its winner is not yet found
            for offset, lead in zip(ctx.reach[:0:-1], leads[::-1], strict=True):
                won = torch.ops.aten.threshold_backward(left, lead, 0)  # left where lead > 0; several times faster than where
                left -= won
                into_f_RC[a + offset : b + offset] += won
            into_f_RC[a + ctx.reach.start : b + ctx.reach.start] += left
        return into_f_RC, None, None


def chunks(rows: Rows) -> Iterator[tuple[int, int]]:
    """The rows from which a filter can look both ways, in parts that stay in the cache."""
    first, last = rows.gap, rows.n_rows - rows.gap
    for a in range(first, last, CHUNK):
        yield a, min(a + CHUNK, last)


class Convolution(torch.autograd.Function):
    """ReLU of a half convolution, [R, C] with a filter [C, width, S] -> [R, S]; zero between sentences."""

    @staticmethod
    def forward(ctx, h_RC: Tensor, weight: Tensor, rows: Rows) -> Tensor:
        reach = half_offsets(weight.shape[1])
        out_RS = convolve(h_RC, weight, reach, rows).relu_()
        out_RS[rows.gaps] = 0
        ctx.save_for_backward(h_RC, weight, out_RS)
        ctx.reach, ctx.rows = reach, rows
        return out_RS

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        h_RC, weight, out_RS = ctx.saved_tensors
        grad_RS = torch.ops.aten.threshold_backward(grads[0], out_RS, 0)  # this also makes the gaps zero
        backward = range(1 - ctx.reach.stop, 1 - ctx.reach.start)
        into_h_RC = convolve(grad_RS, weight.flip(1).transpose(0, 2), backward, ctx.rows)
        if winograd.pays(weight):
            return into_h_RC, winograd.filter_gradient(winograd.points_of(h_RC), grad_RS), None
        a, b = ctx.rows.gap, ctx.rows.n_rows - ctx.rows.gap
        parts = [h_RC[a + offset : b + offset].t() @ grad_RS[a:b] for offset in ctx.reach]
        return into_h_RC, torch.stack(parts, 1), None


class PooledConvolution(torch.autograd.Function):
    """`MaxPool` of width 2 and `Convolution` in one: the pooled rows are made where they are read and never stored."""

    @staticmethod
    def applies(width: int, weight: Tensor) -> bool:
        return width == 2 and winograd.pays(weight) and compiled.usable(weight)

    @staticmethod
    def forward(ctx, f_RC: Tensor, weight: Tensor, rows: Rows) -> Tensor:
        out_RS = winograd.convolve(pooled_points_of(f_RC, rows), weight, rows.n_rows).relu_()
        out_RS[rows.gaps] = 0
        ctx.save_for_backward(f_RC, weight, out_RS)
        ctx.rows = rows
        return out_RS

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        from trflm.potentials.cnn.winograd_loops import unpool_points

        f_RC, weight, out_RS = ctx.saved_tensors
        grad_RS = torch.ops.aten.threshold_backward(grads[0], out_RS, 0)
        points, filter_8SC = winograd.points_of(grad_RS), winograd.filter_points(weight.flip(1).transpose(0, 2))
        keep_R, before_C = ctx.rows.inside_R.to(f_RC.dtype), f_RC.new_zeros(f_RC.shape[1])
        into_f_RC = torch.empty_like(f_RC)
        into_f_RC[0] = into_f_RC[-1] = 0
        for a, b in winograd.chunks(len(f_RC)):
            tensors = (products(points(a, b), filter_8SC), f_RC, keep_R, before_C, into_f_RC)
            unpool_points(a, *(tensor.numpy() for tensor in tensors))
        return into_f_RC, winograd.filter_gradient(pooled_points_of(f_RC, ctx.rows), grad_RS), None


def pooled_points_of(f_RC: Tensor, rows: Rows) -> winograd.Points:
    """Those of the pooled rows."""
    from trflm.potentials.cnn.winograd_loops import pooled_points

    return winograd.compiled_points(pooled_points, f_RC, rows.inside_R.to(f_RC.dtype))


def convolve(h_RC: Tensor, weight: Tensor, reach: range, rows: Rows) -> Tensor:
    """[R, S] sum over the offsets o of h_{i+o} W_o."""
    if winograd.pays(weight):
        return winograd.convolve(winograd.points_of(h_RC), weight, rows.n_rows)
    a, b = rows.gap, rows.n_rows - rows.gap
    out_RS = h_RC.new_zeros(rows.n_rows, weight.shape[2])
    for o, offset in enumerate(reach):
        out_RS[a:b].addmm_(h_RC[a + offset : b + offset], weight[:, o])
    return out_RS
