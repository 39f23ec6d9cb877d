"""One layer of an LSTM over many texts at once, without padding: all states of one time step in one product.

    i, f, g, o = gates_t + W h_{t-1}        c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g)        h_t = sigmoid(o) tanh(c_t)

The texts are sentences packed by time, longest first, as torch's PackedSequence has them (`Recurrence`, with its gradient), or
the prefixes of a tree, where several states may follow one parent (`read_tree`, for scoring). The inputs' share of the gates
is known before the first step. torch's own LSTM on a CPU adds up the gradient of W word by word, a whole matrix each time;
here it is one product at the end.

Shapes: N words in all, B sentences, n of them still running at a time, H units; P states of a tree; R states
that follow P parents, X inputs.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from trflm.speed import compiled
from trflm.speed.products import linear, multiply, times


def advance(gates_n4H: Tensor, c_before_nH: Tensor, c_nH: Tensor, h_nH: Tensor) -> None:
    """c_t and h_t, written into the last two; the gates are replaced by their sigmoids, and tanh for g."""
    H = c_nH.shape[1]
    if pass_applies(gates_n4H):
        from trflm.recurrent import recurrence_loops

        recurrence_loops.advance(*(x.numpy() for x in (gates_n4H.unflatten(1, (4, H)), c_before_nH, c_nH, h_nH)))
        return
    gates_n4H[:, : 2 * H].sigmoid_()
    gates_n4H[:, 2 * H : 3 * H].tanh_()
    gates_n4H[:, 3 * H :].sigmoid_()
    in_nH, forget_nH, cell_nH, out_nH = gates_n4H.chunk(4, 1)
    torch.mul(forget_nH, c_before_nH, out=c_nH).addcmul_(in_nH, cell_nH)
    torch.tanh(c_nH, out=h_nH).mul_(out_nH)


def retreat(
    gates_n4H: Tensor, c_before_nH: Tensor, c_nH: Tensor, into_h_nH: Tensor, into_c_nH: Tensor, into_n4H: Tensor
) -> None:
    """Back through `advance`, whose gates and c are given, from the gradients of h_t and c_t: that of the sums inside the gates
    is written into the last, that of c_{t-1} takes the place of that of c_t."""
    H = c_nH.shape[1]
    if pass_applies(gates_n4H):
        from trflm.recurrent import recurrence_loops

        gates_n4H, into_n4H = (x.unflatten(1, (4, H)) for x in (gates_n4H, into_n4H))
        recurrence_loops.retreat(*(x.numpy() for x in (gates_n4H, c_before_nH, c_nH, into_h_nH, into_c_nH, into_n4H)))
        return
    in_nH, forget_nH, cell_nH, out_nH = gates_n4H.chunk(4, 1)
    tanh_c_nH = c_nH.tanh()
    into_c_nH += into_h_nH * out_nH * (1 - tanh_c_nH.square())
    into_in, into_forget, into_cell, into_out = into_n4H.chunk(4, 1)
    into_in.copy_(into_c_nH * cell_nH * in_nH * (1 - in_nH))
    into_forget.copy_(into_c_nH * c_before_nH * forget_nH * (1 - forget_nH))
    into_cell.copy_(into_c_nH * in_nH * (1 - cell_nH.square()))
    into_out.copy_(into_h_nH * tanh_c_nH * out_nH * (1 - out_nH))
    into_c_nH *= forget_nH


def next_states(
    product_P4H: Tensor, parent_R: Tensor, input_X4H: Tensor, input_R: Tensor, c_PH: Tensor
) -> tuple[Tensor, Tensor]:
    """(h_RH, c_RH) of states each of which follows a parent, whose product W h is given, and reads an input. No gradient."""
    h_RH, c_RH = (c_PH.new_empty(len(parent_R), c_PH.shape[1]) for _ in range(2))
    if pass_applies(product_P4H):
        from trflm.recurrent import recurrence_loops

        product_P4H, input_X4H = (x.unflatten(1, (4, -1)) for x in (product_P4H, input_X4H))
        recurrence_loops.next_states(*(x.numpy() for x in (product_P4H, parent_R, input_X4H, input_R, c_PH, h_RH, c_RH)))
    else:
        gates_R4H = product_P4H.index_select(0, parent_R) + input_X4H.index_select(0, input_R)
        advance(gates_R4H, c_PH.index_select(0, parent_R), c_RH, h_RH)
    return h_RH, c_RH


def pass_applies(gates_n4H: Tensor) -> bool:
    """Whether the compiled loops serve these gates."""
    return gates_n4H.dtype == torch.float32 and compiled.usable(gates_n4H)


class Recurrence(torch.autograd.Function):
    """(gates_N4H from the input, W_4HH, sentences running at each time) -> (h_NH, c_NH)."""

    @staticmethod
    def forward(ctx, gates_N4H: Tensor, weight_4HH: Tensor, running: list[int]) -> tuple[Tensor, Tensor]:
        H = weight_4HH.shape[1]
        gates_N4H = gates_N4H.clone()
        h_NH, c_NH = (gates_N4H.new_empty(len(gates_N4H), H) for _ in range(2))
        h_BH = c_BH = gates_N4H.new_zeros(running[0], H)
        for gates_n4H, h_nH, c_nH in zip(*(x.split(running) for x in (gates_N4H, h_NH, c_NH)), strict=True):
            multiply(h_BH[: len(h_nH)], weight_4HH.t(), gates_n4H, beta=1)
            advance(gates_n4H, c_BH[: len(h_nH)], c_nH, h_nH)
            h_BH, c_BH = h_nH, c_nH
        ctx.save_for_backward(gates_N4H, h_NH, c_NH, weight_4HH)
        ctx.running = running
        ctx.mark_non_differentiable(c_NH)
        return h_NH, c_NH

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        gates_N4H, h_NH, c_NH, weight_4HH = ctx.saved_tensors
        running, H = ctx.running, weight_4HH.shape[1]
        # Of each word but the first of a sentence, the word before: as many rows back as sentences ran then.
        n_first = running[0]
        back = torch.tensor(running[:-1], dtype=torch.int64).repeat_interleave(torch.tensor(running[1:], dtype=torch.int64))
        before = torch.arange(n_first, len(h_NH), device=h_NH.device) - back.to(h_NH.device)
        c_before_NH = torch.cat([c_NH.new_zeros(n_first, H), c_NH.index_select(0, before)])

        # What a gradient of h_t and of c_t gives, all times at once; then back through time.
        in_NH, forget_NH, cell_NH, out_NH = gates_N4H.chunk(4, 1)
        tanh_c_NH = c_NH.tanh()
        c_from_h_NH = out_NH * (1 - tanh_c_NH.square())
        from_c_N3H = torch.stack(
            [cell_NH * in_NH * (1 - in_NH), c_before_NH * forget_NH * (1 - forget_NH), in_NH * (1 - cell_NH.square())], 1
        )
        from_h_NH = tanh_c_NH * out_NH * (1 - out_NH)
        into_gates_N4H = torch.empty_like(gates_N4H)
        into_h_BH, into_c_BH = (h_NH.new_zeros(n_first, H) for _ in range(2))
        split = [x.split(running) for x in (grads[0], c_from_h_NH, from_c_N3H, from_h_NH, forget_NH, into_gates_N4H)]
        for grad_nH, c_from_h_nH, from_c_n3H, from_h_nH, forget_nH, into_n4H in zip(*(x[::-1] for x in split), strict=True):
            n = len(grad_nH)
            into_h_nH, into_c_nH = into_h_BH[:n], into_c_BH[:n]
            into_h_nH += grad_nH
            into_c_nH.addcmul_(into_h_nH, c_from_h_nH)
            torch.mul(into_c_nH[:, None], from_c_n3H, out=into_n4H[:, : 3 * H].view(n, 3, H))
            torch.mul(into_h_nH, from_h_nH, out=into_n4H[:, 3 * H :])
            into_c_nH *= forget_nH
            multiply(into_n4H, weight_4HH, into_h_nH)
        into_weight_H4H = times(h_NH.index_select(0, before).t(), into_gates_N4H[n_first:])
        return into_gates_N4H, into_weight_H4H.t().contiguous(), None


def read_packed(gates_N4H: Tensor, weight_4HH: Tensor, running: list[int]) -> Tensor:
    """[N, H] h after each word of packed sentences, `running` of them at each time. Differentiable."""
    return Recurrence.apply(gates_N4H, weight_4HH, running)[0]


def read_on(gates_T4H: Tensor, weight_4HH: Tensor, h_H: Tensor, c_H: Tensor) -> tuple[Tensor, Tensor]:
    """([T, H] h after each word of a text, [H] c after the last), from the state that the words before it left. No gradient."""
    h_TH, c_1H = gates_T4H.new_empty(len(gates_T4H), len(c_H)), c_H[None].clone()
    if pass_applies(gates_T4H):
        from trflm.recurrent import recurrence_loops

        gates_T4H, weight_4HH = gates_T4H.unflatten(1, (4, -1)), weight_4HH.contiguous()
        recurrence_loops.read_on(*(x.numpy() for x in (gates_T4H, weight_4HH, h_H, c_1H[0], h_TH)))
        return h_TH, c_1H[0]
    h_1H = h_H[None]
    for gates_14H, after_1H in zip(gates_T4H.clone().split(1), h_TH.split(1), strict=True):
        gates_14H.addmm_(h_1H, weight_4HH.t())
        advance(gates_14H, c_1H, c_1H, after_1H)
        h_1H = after_1H
    return h_TH, c_1H[0]


def read_tree(gates_P4H: Tensor, weight_4HH: Tensor, sizes: Sequence[int], parent_P: Tensor) -> Tensor:
    """[P, H] h after each prefix of a tree, level after level of these sizes; the first level follows the zero state.

    Products are in the type of W, all else in that of the gates.
    """
    h = c = gates_P4H.new_zeros(1, weight_4HH.shape[1])
    before, low, levels = 0, 0, []  # where the level before starts, where this one does
    for gates in gates_P4H.split(list(sizes)):
        parent = parent_P[low : low + len(gates)] - before if levels else torch.zeros_like(parent_P[: len(gates)])
        every = torch.arange(len(gates), device=gates.device)
        product = linear(h.to(weight_4HH.dtype), weight_4HH).to(h.dtype)  # W h once for each parent
        h, c = next_states(product, parent, gates, every, c)
        before, low = low, low + len(gates)
        levels.append(h)
    return torch.cat(levels)
