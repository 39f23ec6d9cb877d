"""The CNN potential for scoring: every distinct window of words is computed once, layer by layer (see `windows`).

    f_k   = sum of k table rows                                   on the distinct windows of k words
    h_k   = ReLU(max of two f_k)                                  on those of k + 1 words
    Z_k   = Z_{k-1} + h_k S_1[k]                                  the same: what the first stack layer reads, width by width
    Y_j   = ReLU(sum_o Z_{j-1}[o]),  Z_j = Y_j S_{j+1}            on those of 13, 15, 17 words

The matmul of a stack layer runs on the windows of the layer below, to all its offsets at once; then rows are gathered and
added. All this is exact: the same sums in another order.

Shapes: N positions, D distinct windows of a layer, w filters of a width, C = s * d_s columns for s offsets, S = d_s channels.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from trflm.potentials.cnn import CNN
from trflm.potentials.row_kernels import pool_rows, stack_rows
from trflm.potentials.windows import Shape, WindowIndex
from trflm.text import Batch


def contributions(cnn: CNN, batch: Batch) -> Tensor:
    """[N] what each position adds to phi, without gradient; equal to `CNN.contributions`."""
    config = cnn.config
    shape = Shape(config.bank_width, config.pool_width, config.stack_width, config.stack_layers)
    with torch.no_grad():
        index = WindowIndex.of(batch, shape)
        z_DC, total_DS = first_products(cnn, index), None
        for j, (layer, a_S) in enumerate(zip(index.stack, cnn.skip, strict=True)):
            y_DS, total_DS = stack_rows(z_DC.view(-1, len(a_S)), layer.reads_Ds, a_S, total_DS, layer.inner_D)
            if j + 1 < len(cnn.stack):
                weight = cnn.stack[j + 1].flatten(1)
                z_DC = with_room(y_DS, len(y_DS), weight.shape[1])
                torch.mm(y_DS, weight, out=z_DC[:-1])
        assert total_DS is not None  # stack_layers >= 1
        value_D = total_DS.relu_() @ cnn.readout
        return value_D[index.top_N] + (cnn.constant / batch.lengths_B)[batch.sentence_N]


def first_products(cnn: CNN, index: WindowIndex) -> Tensor:
    """[D+1, C] the pooled bank times the filters of the first stack layer, and a last row of zeros."""
    w, P = cnn.config.bank_filters, len(cnn.offsets)
    slot_U = F.pad(cnn.word_table.slots(cnn, index.words_U), (0, 1)).int()  # slot 0: the zeros beyond a sentence
    table = cnn.word_table.rows.view(-1, w)
    pair_P = torch.arange(P, dtype=torch.int32, device=table.device)
    z_DC = table.new_zeros(0)
    for k, (words_Dk, reads_Dp, weight) in enumerate(zip(index.bank, index.pool, cnn.stack[0].split(w), strict=True), 1):
        rows_Dk = slot_U[words_Dk] * P + pair_P[k * (k - 1) // 2 : k * (k + 1) // 2]
        h_Dw = pool_rows(F.embedding_bag(rows_Dk, table, mode="sum"), reads_Dp)
        wider_DC = with_room(h_Dw, len(h_Dw), weight[0].numel())
        if k == 1:
            torch.mm(h_Dw, weight.flatten(1), out=wider_DC[:-1])
        else:
            torch.index_select(z_DC, 0, index.parents[k - 2], out=wider_DC[:-1])
            wider_DC[:-1].addmm_(h_Dw, weight.flatten(1))
        z_DC = wider_DC
    return z_DC


def with_room(like: Tensor, n_rows: int, n_columns: int) -> Tensor:
    """Rows to be filled, and a last one of zeros."""
    rows = like.new_empty(n_rows + 1, n_columns)
    rows[-1] = 0
    return rows
