"""The recurrence of `recurrence` for training, with products in a type of their own, and from a state that is given.

Factors of products may be rounded to bf16, for which some CPUs have instructions that are several times as fast; a product is
summed in fp32, then rounded to bf16 too. The products with the inputs of all words come in as one product, and the gradient of
W is one. Gates, memory cells and what is added up between products stay in fp32.

Shapes: N words in all, S texts, n of them still running at a time, H hidden units, G = 4 H gates.
"""

import torch
from torch import Tensor

from trflm.recurrent.recurrence import advance, retreat
from trflm.speed.products import linear, times


def read_fast(gates_NG: Tensor, weight_GH: Tensor, running: list[int], h_SH: Tensor, c_SH: Tensor) -> tuple[Tensor, Tensor]:
    """([N, H] h after each word, c after the words of the last time), from the state before the first words.

    The words lie time after time, `running` of them at each, never more than before. Products are in the type of the gates
    that are given. Differentiable in the gates and W; no gradient goes into or out of a state.
    """
    return FastRecurrence.apply(gates_NG, weight_GH, running, h_SH, c_SH)


class FastRecurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, gates_NG: Tensor, weight_GH: Tensor, running: list[int], h_SH: Tensor, c_SH: Tensor
    ) -> tuple[Tensor, Tensor]:
        dtype, first_h_SH, first_c_SH = gates_NG.dtype, h_SH, c_SH
        gates_NG = gates_NG.to(weight_GH.dtype, copy=True)
        weight_GH = weight_GH.to(dtype)
        h_NH, c_NH = (h_SH.new_empty(len(gates_NG), h_SH.shape[1]) for _ in range(2))
        for gates_nG, h_nH, c_nH in zip(*(x.split(running) for x in (gates_NG, h_NH, c_NH)), strict=True):
            n = len(h_nH)
            gates_nG += linear(h_SH[:n].to(dtype), weight_GH)
            advance(gates_nG, c_SH[:n], c_nH, h_nH)
            h_SH, c_SH = h_nH, c_nH
        ctx.save_for_backward(gates_NG, h_NH, c_NH, weight_GH, first_h_SH, first_c_SH)
        ctx.running = running
        c_SH = c_SH.clone()
        ctx.mark_non_differentiable(c_SH)
        return h_NH, c_SH

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        gates_NG, h_NH, c_NH, weight_GH, first_h_SH, first_c_SH = ctx.saved_tensors
        into_NG = torch.empty_like(gates_NG, dtype=weight_GH.dtype)
        into_h_SH, into_c_SH = torch.zeros_like(first_h_SH), torch.zeros_like(first_c_SH)
        into_SG = torch.empty_like(gates_NG[: len(first_h_SH)])
        c_before = before(c_NH, ctx.running, first_c_SH)
        by_time = zip(*(x.split(ctx.running) for x in (grads[0], gates_NG, c_NH, into_NG)), c_before, strict=True)
        for grad_nH, gates_nG, c_nH, into_nG, c_before_nH in reversed(list(by_time)):
            n = len(grad_nH)
            into_h_nH = into_h_SH[:n]
            into_h_nH += grad_nH
            retreat(gates_nG, c_before_nH, c_nH, into_h_nH, into_c_SH[:n], into_SG[:n])
            into_nG.copy_(into_SG[:n])
            into_h_nH.copy_(times(into_nG, weight_GH))
        h_before_NH = torch.cat(before(h_NH, ctx.running, first_h_SH)).to(weight_GH.dtype)
        into_weight_HG = times(h_before_NH.t(), into_NG)
        return into_NG, into_weight_HG.t().to(h_NH.dtype).contiguous(), None, None, None


def before(state_NH: Tensor, running: list[int], first_SH: Tensor) -> list[Tensor]:
    """At each time, the states that its words follow."""
    states = [first_SH, *state_NH.split(running)]
    return [state_SH[:n] for state_SH, n in zip(states, running, strict=False)]
