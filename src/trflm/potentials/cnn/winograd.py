"""Convolutions of width 3 by Winograd's minimal filtering F(6, 3): 4/9 of the multiply-adds of the direct sum.

6 outputs at a time are taken from 8 inputs. With d [8, C] the inputs, g [3, C, S] the filter and the matrices below, the
outputs are A^T ((G g) . (B^T d)), where . is one product of a row and a [C, S] matrix at each of 8 points: 8 products for 6
outputs, where the direct sum needs 18. It is exact algebra; in float32 the outputs are off by 2e-6 of their size (root mean
square), those of the direct sum by 3e-7.

Why points: 3 filter numbers are a polynomial of degree 2, 6 numbers one of degree 5. Their product takes 18 multiplications,
but has degree 7, so that 8 of its values determine it, and each value is one product of two values. The points are 0, +-1,
+-2, +-1/2 and infinity, where the value of a polynomial is its leading coefficient. A convolution is this product transposed:
G evaluates the filter at the points (its row for a is 1, a, a^2 times a constant), A evaluates the six (its row is 1, a, ..,
a^5), and B goes back from values to coefficients. Small points have small powers, and so less rounding; pairs +-a share the
sums over even and over odd powers (`winograd_loops`).

One trace of that rounding can matter to Adam. Where the gradient of a filter is exactly zero at one offset only (what it would
see there is always zero), the sum over points leaves 1e-9 instead, and Adam may turn that into a step. This was seen in nets
of six channels on three-word sentences; narrow layers gain nothing here anyway, so they are summed directly.

Shapes: R rows, a multiple of 6 and 2 more; C channels in, S channels out, T groups of 6 rows.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from trflm.speed import compiled
from trflm.speed.products import add_products, products

Points = Callable[[int, int], Tensor]  # (a, b) -> [8, b - a, C]: B^T d of the groups a..b
WIDTH, OUTPUTS, INPUTS = 3, 6, 8
NARROWEST = 32  # channels; narrower layers are summed directly
CHUNK = 170  # groups at once: what is computed from them stays in the cache
ALIKE = 10  # the number of groups is a multiple of it: a product is prepared for its sizes, so they should come back
# fmt: off
B_T = ((1, 0, -21 / 4, 0, 21 / 4, 0, -1, 0), (0, 1, 1, -17 / 4, -17 / 4, 1, 1, 0), (0, -1, 1, 17 / 4, -17 / 4, -1, 1, 0),
       (0, 1 / 2, 1 / 4, -5 / 2, -5 / 4, 2, 1, 0), (0, -1 / 2, 1 / 4, 5 / 2, -5 / 4, -2, 1, 0),
       (0, 2, 4, -5 / 2, -5, 1 / 2, 1, 0), (0, -2, 4, 5 / 2, -5, -1 / 2, 1, 0), (0, -1, 0, 21 / 4, 0, -21 / 4, 0, 1))
G = ((1, 0, 0), (-2 / 9, -2 / 9, -2 / 9), (-2 / 9, 2 / 9, -2 / 9), (1 / 90, 1 / 45, 2 / 45), (1 / 90, -1 / 45, 2 / 45),
     (32 / 45, 16 / 45, 8 / 45), (32 / 45, -16 / 45, 8 / 45), (0, 0, 1))
A_T = ((1, 1, 1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 1 / 2, -1 / 2, 0), (0, 1, 1, 4, 4, 1 / 4, 1 / 4, 0),
       (0, 1, -1, 8, -8, 1 / 8, -1 / 8, 0), (0, 1, 1, 16, 16, 1 / 16, 1 / 16, 0), (0, 1, -1, 32, -32, 1 / 32, -1 / 32, 1))
# fmt: on


def pays(weight: Tensor) -> bool:
    """Whether a layer with this filter, [C, width, S], is computed this way: width 3, and wide enough to gain."""
    return weight.shape[1] == WIDTH and min(weight.shape[0], weight.shape[2]) >= NARROWEST


def rows_missing(n_rows: int) -> int:
    """How many rows to add, so that all but the first and the last make whole groups, ALIKE of them or a multiple."""
    return (INPUTS - OUTPUTS - n_rows) % (ALIKE * OUTPUTS)


def points_of(h_RC: Tensor) -> Points:
    """B^T d of the groups a..b, for rows that are there."""
    h_RC = h_RC.contiguous()
    if compiled.usable(h_RC):
        from trflm.potentials.cnn.winograd_loops import input_points

        return compiled_points(input_points, h_RC)
    b_t, C = h_RC.new_tensor(B_T), h_RC.shape[1]
    inputs_T8C = h_RC.as_strided(((len(h_RC) - 2) // OUTPUTS, INPUTS, C), (OUTPUTS * C, C, 1))  # groups share their edges
    return lambda a, b: (b_t @ inputs_T8C[a:b]).transpose(0, 1)


def gradient_points_of(grad_RS: Tensor) -> Points:
    """A g of the groups a..b."""
    grad_RS = grad_RS.contiguous()
    if compiled.usable(grad_RS):
        from trflm.potentials.cnn.winograd_loops import gradient_points

        return compiled_points(gradient_points, grad_RS)
    a_matrix, grad_T6S = grad_RS.new_tensor(A_T).t(), grad_RS[1:-1].view(-1, OUTPUTS, grad_RS.shape[1])
    return lambda a, b: (a_matrix @ grad_T6S[a:b]).transpose(0, 1)


def compiled_points(kernel: Callable[..., None], rows_RC: Tensor, *others: Tensor) -> Points:
    """The points that a compiled loop makes of rows: kernel(first, rows, *others, points)."""
    arrays = [tensor.detach().numpy() for tensor in (rows_RC, *others)]

    def points(a: int, b: int) -> Tensor:
        points_8tC = rows_RC.new_empty(INPUTS, b - a, rows_RC.shape[1])
        kernel(a, *arrays, points_8tC.numpy())
        return points_8tC

    return points


def write_rows(a: int, points_8tS: Tensor, out_RS: Tensor) -> None:
    """A^T p of the groups from a on, into their rows."""
    if compiled.usable(out_RS):
        from trflm.potentials.cnn.winograd_loops import output_rows

        output_rows(a, points_8tS.numpy(), out_RS.numpy())
        return
    n, S = points_8tS.shape[1:]
    out_t6S = out_RS[1 + OUTPUTS * a : 1 + OUTPUTS * (a + n)].view(n, OUTPUTS, S)
    torch.matmul(out_RS.new_tensor(A_T), points_8tS.transpose(0, 1), out=out_t6S)


def filter_points(weight: Tensor) -> Tensor:
    """[8, C, S] G g."""
    C, _, S = weight.shape
    return (weight.new_tensor(G) @ weight.transpose(0, 1).reshape(WIDTH, C * S)).view(INPUTS, C, S)


def convolve(points: Points, weight: Tensor, n_rows: int) -> Tensor:
    """[R, S] sum_o h_{i+o} W_o for o = -1, 0, 1; 0 in the first and the last row."""
    filter_8CS = filter_points(weight)
    out_RS = weight.new_empty(n_rows, weight.shape[2])
    out_RS[0] = out_RS[-1] = 0
    for a, b in chunks(n_rows):
        write_rows(a, products(points(a, b), filter_8CS), out_RS)
    return out_RS


def filter_gradient(points: Points, grad_RS: Tensor) -> Tensor:
    """[C, 3, S] the gradient of the filter: G^T sum_T (B^T d) (A g)^T."""
    of_gradient, total_8SC = gradient_points_of(grad_RS), None
    for a, b in chunks(len(grad_RS)):
        factors = of_gradient(a, b).transpose(1, 2), points(a, b)
        total_8SC = products(*factors) if total_8SC is None else add_products(total_8SC, *factors)
    assert total_8SC is not None  # there is at least one group
    _, S, C = total_8SC.shape
    return (grad_RS.new_tensor(G).t() @ total_8SC.view(INPUTS, S * C)).view(WIDTH, S, C).permute(2, 0, 1)


def chunks(n_rows: int) -> Iterator[tuple[int, int]]:
    """The groups that `n_rows` rows make, in parts that stay in the cache."""
    n_groups = n_rows // OUTPUTS
    for a in range(0, n_groups, CHUNK):
        yield a, min(a + CHUNK, n_groups)
