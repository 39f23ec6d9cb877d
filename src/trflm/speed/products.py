"""Products of fp32 matrices by oneDNN where torch's own way leaves half of the CPU idle.

torch multiplies by Intel's MKL, which takes AVX-512 instructions on Intel's CPUs only: on an AMD CPU that has them it goes at
half of the speed (110 against 245 GFLOP/s on one core with AVX-512). oneDNN, which torch has for convolutions, asks the CPU and
not its maker. Factors and sums are fp32 either way; sums are taken in another order. Only `linear` has gradients.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

FEWEST = 1 << 18  # multiply-adds; below it the call itself takes longer than the product
ROWS = 512  # at once, where the product is to be written into memory that is there: it passes through the cache


@functools.cache
def onednn_pays() -> bool:
    """Is this CPU one whose AVX-512 MKL does not use, and does this torch have oneDNN's product?"""
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not torch.backends.mkldnn.is_available():
        return False
    try:
        intel = "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return not intel and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def applies(a: Tensor, b: Tensor) -> bool:
    on_cpu = a.device.type == "cpu" and a.dtype == b.dtype == torch.float32
    return on_cpu and a.shape[-2] * b.shape[-2] * b.shape[-1] >= FEWEST and onednn_pays()


def times(a: Tensor, b: Tensor) -> Tensor:
    """a @ b. `a` is copied if its rows do not lie together, so let it be the smaller one then."""
    return _linear(a, b) if applies(a, b) else a @ b


def linear(x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """`F.linear`, differentiable."""
    if x_NI.dim() != 2 or not applies(x_NI, weight_OI.t()):
        return F.linear(x_NI, weight_OI, bias_O)
    output = _Linear.apply(x_NI, weight_OI, bias_O)
    assert isinstance(output, Tensor)
    return output


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
        ctx.save_for_backward(x_NI, weight_OI)
        return _linear(x_NI, weight_OI.t(), bias_O)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        (x_NI, weight_OI), into_NO = ctx.saved_tensors, gradients[0]
        into_x, into_weight, into_bias = ctx.needs_input_grad
        return (
            times(into_NO, weight_OI) if into_x else None,
            times(x_NI.t(), into_NO).t().contiguous() if into_weight else None,
            into_NO.sum(0) if into_bias else None,
        )


def multiply(a: Tensor, b: Tensor, out: Tensor, beta: int = 0) -> None:
    """out = beta out + a @ b. Which way is taken depends on b alone, so that a row is the same among few and among many."""
    if not applies(b, b):
        if beta:
            out.addmm_(a, b, beta=beta)
        else:
            torch.mm(a, b, out=out)
        return
    n_parts = -(-len(a) // ROWS)
    for rows, into in zip(a.tensor_split(n_parts), out.tensor_split(n_parts), strict=True):
        if beta:
            into += _linear(rows, b)
        else:
            into.copy_(_linear(rows, b))


def products(left_nAB: Tensor, right_nBC: Tensor) -> Tensor:
    """[n, A, C]"""
    if not applies(left_nAB, right_nBC):
        return torch.bmm(left_nAB, right_nBC)
    out_nAC = left_nAB.new_empty(len(left_nAB), left_nAB.shape[1], right_nBC.shape[2])
    for left, right, out in zip(left_nAB, right_nBC, out_nAC, strict=True):
        out.copy_(_linear(left, right))
    return out_nAC


def add_products(total_nAC: Tensor, left_nAB: Tensor, right_nBC: Tensor) -> Tensor:
    """total += left @ right."""
    if not applies(left_nAB, right_nBC):
        return total_nAC.baddbmm_(left_nAB, right_nBC)
    for total, left, right in zip(total_nAC, left_nAB, right_nBC, strict=True):
        total += _linear(left, right)
    return total_nAC


def _linear(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """a @ b + bias"""
    onednn = cast("Callable[..., Tensor]", torch.ops.mkldnn._linear_pointwise)
    return onednn(a.detach(), b.detach().t(), None if bias is None else bias.detach(), "none", [], "")
