"""Convolutions of width 3 by Winograd's minimal filtering F(4, 3): half the multiply-adds of the direct sum.

4 outputs at a time are taken from 6 inputs. With d [6, C] the inputs, g [3, C, S] the filter and the matrices below, the
outputs are A^T ((G g) . (B^T d)), where . is one product of a row and a [C, S] matrix at each of 6 points: 6 products for 4
outputs, where the direct sum needs 12. It is exact algebra; in float32 it differs from the direct sum by 1e-6 of its size.

One trace of that rounding can matter to Adam. Where the gradient of a filter is exactly zero at one offset only (what it would
see there is always zero), the sum over points leaves 1e-9 instead, and Adam may turn that into a step. This was seen in nets
of six channels on three-word sentences; narrow layers gain nothing here anyway, so they are summed directly.

Shapes: R rows, a multiple of 4 and 2 more; C channels in, S channels out, T groups of 4 rows.
"""

import torch
from torch import Tensor

WIDTH, OUTPUTS, INPUTS = 3, 4, 6
NARROWEST = 32  # channels; narrower layers are summed directly
CHUNK = 256  # groups at once: what is computed from them stays in the cache
# fmt: off
B_T = ((4, 0, -5, 0, 1, 0), (0, -4, -4, 1, 1, 0), (0, 4, -4, -1, 1, 0),
       (0, -2, -1, 2, 1, 0), (0, 2, -1, -2, 1, 0), (0, 4, 0, -5, 0, 1))
G = ((1 / 4, 0, 0), (-1 / 6, -1 / 6, -1 / 6), (-1 / 6, 1 / 6, -1 / 6),
     (1 / 24, 1 / 12, 1 / 6), (1 / 24, -1 / 12, 1 / 6), (0, 0, 1))
A_T = ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1))
# fmt: on


def pays(weight: Tensor) -> bool:
    """Whether a layer with this filter, [C, width, S], is computed this way: width 3, and wide enough to gain."""
    return weight.shape[1] == WIDTH and min(weight.shape[0], weight.shape[2]) >= NARROWEST


def rows_missing(n_rows: int) -> int:
    """How many rows to add, so that all but the first and the last make whole groups."""
    return (INPUTS - n_rows) % OUTPUTS


def convolve(h_RC: Tensor, weight: Tensor) -> Tensor:
    """[R, S] sum_o h_{i+o} W_o for o = -1, 0, 1; 0 in the first and the last row."""
    C, _, S = weight.shape
    b_t, g, a_t = (h_RC.new_tensor(matrix) for matrix in (B_T, G, A_T))
    filter_6CS = (g @ weight.transpose(0, 1).reshape(WIDTH, C * S)).view(INPUTS, C, S)
    out_RS = h_RC.new_empty(len(h_RC), S)
    out_RS[0] = out_RS[-1] = 0
    out_T4S = out_RS[1:-1].view(-1, OUTPUTS, S)
    for inputs_T6C, out in zip(groups(h_RC).split(CHUNK), out_T4S.split(CHUNK), strict=True):
        points_6TS = torch.bmm((b_t @ inputs_T6C).transpose(0, 1), filter_6CS)
        torch.bmm(a_t.expand(len(out), -1, -1), points_6TS.transpose(0, 1), out=out)
    return out_RS


def filter_gradient(h_RC: Tensor, grad_RS: Tensor) -> Tensor:
    """[C, 3, S] the gradient of the filter: G^T sum_T (B^T d) (A grad)^T."""
    b_t, g, a_t = (h_RC.new_tensor(matrix) for matrix in (B_T, G, A_T))
    C, S = h_RC.shape[1], grad_RS.shape[1]
    total_6CS = h_RC.new_zeros(INPUTS, C, S)
    for inputs_T6C, grad_T4S in zip(groups(h_RC).split(CHUNK), grad_RS[1:-1].view(-1, OUTPUTS, S).split(CHUNK), strict=True):
        total_6CS.baddbmm_((b_t @ inputs_T6C).permute(1, 2, 0), (a_t.t() @ grad_T4S).transpose(0, 1))
    return (g.t() @ total_6CS.view(INPUTS, C * S)).view(WIDTH, C, S).transpose(0, 1)


def groups(h_RC: Tensor) -> Tensor:
    """[T, 6, C] a view: the 4 rows of each group with one row before and one after."""
    h_RC = h_RC.contiguous()
    C = h_RC.shape[1]
    return h_RC.as_strided(((len(h_RC) - 2) // OUTPUTS, INPUTS, C), (OUTPUTS * C, C, 1))
