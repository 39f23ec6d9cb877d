"""Convolutions of width 3 by Winograd's minimal filtering F(4, 3): half the multiply-adds of the direct sum.

4 outputs at a time are taken from 6 inputs. With d [6, C] the inputs, g [3, C, S] the filter and the matrices below, the
outputs are A^T ((G g) . (B^T d)), where . is one product of a row and a [C, S] matrix at each of 6 points: 6 products for 4
outputs, where the direct sum needs 12. It is exact algebra; in float32 it differs from the direct sum by 1e-6 of its size.

One trace of that rounding can matter to Adam. Where the gradient of a filter is exactly zero at one offset only (what it would
see there is always zero), the sum over points leaves 1e-9 instead, and Adam may turn that into a step. This was seen in nets
of six channels on three-word sentences; narrow layers gain nothing here anyway, so they are summed directly.

Shapes: R rows, a multiple of 4 and 2 more; C channels in, S channels out, T groups of 4 rows.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from trflm import kernels

Points = Callable[[int, int], Tensor]  # (a, b) -> [6, b - a, C]: B^T d of the groups a..b
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


def points_of(h_RC: Tensor) -> Points:
    """B^T d of the groups a..b, for rows that are there."""
    h_RC = h_RC.contiguous()
    if kernels.usable(h_RC):
        from trflm.kernels.winograd import input_points

        return compiled_points(input_points, h_RC)
    b_t, C = h_RC.new_tensor(B_T), h_RC.shape[1]
    inputs_T6C = h_RC.as_strided(((len(h_RC) - 2) // OUTPUTS, INPUTS, C), (OUTPUTS * C, C, 1))  # groups share their edges
    return lambda a, b: (b_t @ inputs_T6C[a:b]).transpose(0, 1)


def gradient_points_of(grad_RS: Tensor) -> Points:
    """A g of the groups a..b."""
    grad_RS = grad_RS.contiguous()
    if kernels.usable(grad_RS):
        from trflm.kernels.winograd import gradient_points

        return compiled_points(gradient_points, grad_RS)
    a_matrix, grad_T4S = grad_RS.new_tensor(A_T).t(), grad_RS[1:-1].view(-1, OUTPUTS, grad_RS.shape[1])
    return lambda a, b: (a_matrix @ grad_T4S[a:b]).transpose(0, 1)


def compiled_points(kernel: Callable[..., None], rows_RC: Tensor, *others: Tensor) -> Points:
    """The points that a compiled loop makes of rows: kernel(first, rows, *others, points)."""
    arrays = [tensor.detach().numpy() for tensor in (rows_RC, *others)]

    def points(a: int, b: int) -> Tensor:
        points_6tC = rows_RC.new_empty(INPUTS, b - a, rows_RC.shape[1])
        kernel(a, *arrays, points_6tC.numpy())
        return points_6tC

    return points


def write_rows(a: int, points_6tS: Tensor, out_RS: Tensor) -> None:
    """A^T p of the groups from a on, into their rows."""
    if kernels.usable(out_RS):
        from trflm.kernels.winograd import output_rows

        output_rows(a, points_6tS.numpy(), out_RS.numpy())
        return
    n, S = points_6tS.shape[1:]
    out_t4S = out_RS[1 + OUTPUTS * a : 1 + OUTPUTS * (a + n)].view(n, OUTPUTS, S)
    torch.matmul(out_RS.new_tensor(A_T), points_6tS.transpose(0, 1), out=out_t4S)


def filter_points(weight: Tensor) -> Tensor:
    """[6, C, S] G g."""
    C, _, S = weight.shape
    return (weight.new_tensor(G) @ weight.transpose(0, 1).reshape(WIDTH, C * S)).view(INPUTS, C, S)


def convolve(points: Points, weight: Tensor, n_rows: int) -> Tensor:
    """[R, S] sum_o h_{i+o} W_o for o = -1, 0, 1; 0 in the first and the last row."""
    filter_6CS = filter_points(weight)
    out_RS = weight.new_empty(n_rows, weight.shape[2])
    out_RS[0] = out_RS[-1] = 0
    for a, b in chunks(n_rows):
        write_rows(a, torch.bmm(points(a, b), filter_6CS), out_RS)
    return out_RS


def filter_gradient(points: Points, grad_RS: Tensor) -> Tensor:
    """[C, 3, S] the gradient of the filter: G^T sum_T (B^T d) (A g)^T."""
    of_gradient, total_6CS = gradient_points_of(grad_RS), None
    for a, b in chunks(len(grad_RS)):
        factors = points(a, b).transpose(1, 2), of_gradient(a, b)
        total_6CS = torch.bmm(*factors) if total_6CS is None else total_6CS.baddbmm_(*factors)
    assert total_6CS is not None  # there is at least one group
    _, C, S = total_6CS.shape
    return (grad_RS.new_tensor(G).t() @ total_6CS.view(INPUTS, C * S)).view(WIDTH, C, S).transpose(0, 1)


def chunks(n_rows: int) -> Iterator[tuple[int, int]]:
    """The groups of so many rows, in parts that stay in the cache."""
    n_groups = n_rows // OUTPUTS
    for a in range(0, n_groups, CHUNK):
        yield a, min(a + CHUNK, n_groups)
