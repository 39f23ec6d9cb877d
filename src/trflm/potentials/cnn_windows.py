"""The CNN potential for scoring: every distinct window of words is computed once, layer by layer (see `windows`).

    f_k   = sum of k table rows                                   on the distinct windows of k words
    h_k   = ReLU(max of two f_k)                                  on those of k + 1 words
    Z_k   = Z_{k-1} + h_k S_1[k]                                  the same: what the first stack layer reads, width by width
    Y_j   = ReLU(sum_o Z_{j-1}[o]),  Z_j = Y_j S_{j+1}            on those of 13, 15, 17 words

The matmul of a stack layer runs on the windows of the layer below, to all its offsets at once; then rows are gathered and
added. All this is exact: the same sums in another order.

Shapes: N positions, D distinct windows of a layer, w filters of a width, C = s * d_s columns for s offsets, S = d_s channels.
"""

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

from trflm.potentials.cnn import CNN, CNNConfig, CNNLayers
from trflm.potentials.windows import Shape, WindowIndex
from trflm.text import Batch


def score(cnn: CNN, batch: Batch) -> Tensor:
    """phi_B without gradient."""
    with torch.no_grad():
        h_DS, row_N = features(cnn, batch)
        return batch.sum_words((h_DS @ cnn.readout).index_select(0, row_N)) + cnn.constant


def features(cnn: CNNLayers, batch: Batch) -> tuple[Tensor, Tensor]:
    """([D, S] ReLU(sum_j a_j * Y_j) of each distinct window of the last layer, [N] the window of each position)."""
    with torch.no_grad():
        index = WindowIndex.of(batch, window_shape(cnn.config))
        z_DC = first_products(cnn, index)
        total_DS = z_DC.new_empty(len(index.stack[-1].reads_Ds), cnn.config.stack_filters)
        for j, (layer, a_S) in enumerate(zip(index.stack, cnn.skip, strict=True)):
            y_DS = F.embedding_bag(layer.reads_Ds, z_DC.view(-1, len(a_S)), mode="sum").relu_()
            if j == 0:
                torch.mul(y_DS, a_S, out=total_DS[: len(y_DS)])
            else:
                add_rows(total_DS, len(y_DS), layer.widened_X).addcmul_(y_DS, a_S)
            if j + 1 < len(cnn.stack):
                z_DC = with_zero_row(y_DS, len(y_DS), cnn.stack[j + 1][0].numel())
                product(cnn, y_DS, cnn.stack[j + 1], z_DC[:-1], beta=0)
        return total_DS.relu_(), index.top_N


def window_shape(config: CNNConfig) -> Shape:
    return Shape(config.bank_width, config.pool_width, config.stack_width, config.stack_layers)


def first_products(cnn: CNNLayers, index: WindowIndex) -> Tensor:
    """[D+1, C] the pooled bank times the filters of the first stack layer, and a last row of zeros."""
    w, P = cnn.config.bank_filters, len(cnn.offsets)
    table, slot_U = cnn.word_table.of(cnn, index.words_U)
    first_row_U = F.pad(slot_U * P, (0, 1)).int()  # slot 0: the zeros beyond a sentence
    pair_P = torch.arange(P, dtype=torch.int32, device=table.device)
    z_DC = with_zero_row(table, len(index.pool[-1].reads[0]), cnn.stack[0][0].numel())
    for k, (words_Dk, layer, weight) in enumerate(zip(index.bank, index.pool, cnn.stack[0].split(w), strict=True), 1):
        rows_Dk = first_row_U.index_select(0, words_Dk.view(-1)).view_as(words_Dk) + pair_P[k * (k - 1) // 2 : k * (k + 1) // 2]
        h_Dw = largest(F.embedding_bag(rows_Dk, table, mode="sum").relu_(), layer.reads)
        sums_DC = z_DC[: len(h_Dw)] if k == 1 else add_rows(z_DC, len(h_Dw), layer.widened_X)
        product(cnn, h_Dw, weight, sums_DC, beta=int(k > 1))
    return z_DC


def add_rows(sums: Tensor, count: int, widened_X: Tensor) -> Tensor:
    """The first `count` rows of these sums, of which the last X are begun with what they widen."""
    first_new = count - len(widened_X)
    torch.index_select(sums[:first_new], 0, widened_X, out=sums[first_new:count])
    return sums[:count]


def largest(f_Dw: Tensor, reads: list[Tensor]) -> Tensor:
    """The maximum of the rows at `reads[0]`, `reads[1]`, ..."""
    h_Dw = f_Dw.index_select(0, reads[0])
    for read_D in reads[1:]:
        torch.maximum(h_Dw, f_Dw.index_select(0, read_D), out=h_Dw)
    return h_Dw


def with_zero_row(like: Tensor, n_rows: int, n_columns: int) -> Tensor:
    """Room for so many rows, and a last row of zeros."""
    rows = like.new_empty(n_rows + 1, n_columns)
    rows[-1] = 0
    return rows


def product(cnn: CNNLayers, h_DC: Tensor, weight: Tensor, out: Tensor, beta: int) -> None:
    """out = beta * out + h times the filters [C, s, S], all offsets side by side."""
    weight = weight.flatten(1)
    if not cnn.score_in_bf16:
        out.addmm_(h_DC, weight, beta=beta)
        return
    if has_bf16():
        product_DC = h_DC.bfloat16() @ weight.bfloat16()
    else:  # the same numbers, but 25 times faster than torch's way without such instructions: factors and result rounded
        product_DC = (h_DC.bfloat16().float() @ weight.bfloat16().float()).bfloat16()
    if beta:
        out += product_DC
    else:
        out.copy_(product_DC)


@functools.cache
def has_bf16() -> bool:
    """Does this CPU multiply in bf16?"""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
