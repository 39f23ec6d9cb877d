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
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from trflm.potentials.cnn.network import CNNLayers, CNNSize
from trflm.potentials.cnn.windows import Shape, WindowIndex
from trflm.speed import compiled
from trflm.speed.bf16 import has_bf16
from trflm.speed.products import multiply
from trflm.speed.threads import on_torch_threads, team_size
from trflm.text import Batch

ROWS_BF16 = 1024  # multiplied at once: rounded factors and products stay in the cache
POSITIONS_A_WORD = 60  # are indexed in about half the time that a word's table rows take


def features(cnn: CNNLayers, batch: Batch) -> tuple[Tensor, Tensor]:
    """([D, S] ReLU(sum_j a_j * Y_j) of each distinct window of the last layer, [N] the window of each position)."""
    with torch.no_grad():
        index, table, slot_U = index_and_table(cnn, batch)
        z_DC = first_products(cnn, index, table, slot_U)
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


def index_and_table(cnn: CNNLayers, batch: Batch) -> tuple[WindowIndex, Tensor, Tensor]:
    """What the bank is summed up from. In an n-best list the table takes one thread less time than the index takes another; for
    more words it is better computed by all of them."""
    words_U, _ = batch.distinct_words
    calls = [lambda: WindowIndex.of(batch, window_shape(cnn.config)), lambda: cnn.word_table.of(cnn, words_U)]
    index, (table, slot_U) = (
        on_torch_threads(calls) if len(words_U) * POSITIONS_A_WORD < batch.n_words else [call() for call in calls]
    )
    return index, table, slot_U


def window_shape(config: CNNSize) -> Shape:
    return Shape(config.bank_width, config.pool_width, config.stack_width, config.stack_layers)


def first_products(cnn: CNNLayers, index: WindowIndex, table: Tensor, slot_U: Tensor) -> Tensor:
    """[D+1, C] the pooled bank times the filters of the first stack layer, and a last row of zeros."""
    first_row_U = F.pad(slot_U * len(cnn.offsets), (0, 1)).int()  # slot 0: the zeros beyond a sentence
    z_DC = with_zero_row(table, index.pool[-1].reads_pD.shape[1], cnn.stack[0][0].numel())
    weights = cnn.stack[0].split(cnn.config.bank_filters)
    for k, (h_Dw, layer, weight) in enumerate(zip(pooled_bank(table, first_row_U, index), index.pool, weights, strict=True), 1):
        sums_DC = z_DC[: len(h_Dw)] if k == 1 else add_rows(z_DC, len(h_Dw), layer.widened_X)
        product(cnn, h_Dw, weight, sums_DC, beta=int(k > 1))
    return z_DC


def pooled_bank(table: Tensor, first_row_U: Tensor, index: WindowIndex) -> Iterable[Tensor]:
    """[D, w] h_k for each width k = 1, 2, ..."""
    of_width = compiled_pooled_bank if compiled.usable(table) else torch_pooled_bank
    widths = [
        functools.partial(of_width, table, first_row_U, words_Dk, layer.reads_pD)
        for words_Dk, layer in zip(index.bank, index.pool, strict=True)
    ]
    if of_width is torch_pooled_bank or team_size() == 1:
        return (width() for width in widths)
    return reversed(on_torch_threads(widths[::-1]))


def compiled_pooled_bank(table: Tensor, first_row_U: Tensor, words_Dk: Tensor, reads_pD: Tensor) -> Tensor:
    from trflm.potentials.cnn.score_loops import bank_rows, pooled_rows

    f_Dw, h_Dw = (table.new_empty(n_rows, table.shape[1]) for n_rows in (len(words_Dk), reads_pD.shape[1]))
    bank_rows(table.numpy(), first_row_U.numpy(), words_Dk.numpy(), first_pair(words_Dk), f_Dw.numpy())
    pooled_rows(f_Dw.numpy(), reads_pD.numpy(), h_Dw.numpy())
    return h_Dw


def torch_pooled_bank(table: Tensor, first_row_U: Tensor, words_Dk: Tensor, reads_pD: Tensor) -> Tensor:
    pair, k = first_pair(words_Dk), words_Dk.shape[1]
    rows_Dk = first_row_U.index_select(0, words_Dk.view(-1)).view_as(words_Dk)
    rows_Dk += torch.arange(pair, pair + k, dtype=torch.int32, device=table.device)
    f_Dw = F.embedding_bag(rows_Dk, table, mode="sum").relu_()
    h_Dw = f_Dw.index_select(0, reads_pD[0])
    for read_D in reads_pD[1:]:
        torch.maximum(h_Dw, f_Dw.index_select(0, read_D), out=h_Dw)
    return h_Dw


def first_pair(words_Dk: Tensor) -> int:
    """The number of the first (width, offset) pair of this width."""
    k = words_Dk.shape[1]
    return k * (k - 1) // 2


def add_rows(sums: Tensor, count: int, widened_X: Tensor) -> Tensor:
    """The first `count` rows of these sums, of which the last X are begun with what they widen."""
    first_new = count - len(widened_X)
    torch.index_select(sums[:first_new], 0, widened_X, out=sums[first_new:count])
    return sums[:count]


def with_zero_row(like: Tensor, n_rows: int, n_columns: int) -> Tensor:
    """Room for `n_rows` rows, and a last row of zeros."""
    rows = like.new_empty(n_rows + 1, n_columns)
    rows[-1] = 0
    return rows


def product(cnn: CNNLayers, h_DC: Tensor, weight: Tensor, out: Tensor, beta: int) -> None:
    """out = beta * out + h times the filters [C, s, S], all offsets side by side."""
    weight = weight.flatten(1)
    if not cnn.score_in_bf16:
        multiply(h_DC, weight, out, beta)
        return
    weight = weight.bfloat16()
    for rows, into in zip(h_DC.split(ROWS_BF16), out.split(ROWS_BF16), strict=True):
        if has_bf16():
            product_DC = rows.bfloat16() @ weight
        else:  # the same numbers, but 25 times faster than torch's way without such instructions: factors and result rounded
            product_DC = (rows.bfloat16().float() @ weight.float()).bfloat16()
        if beta:
            into += product_DC
        else:
            into.copy_(product_DC)
