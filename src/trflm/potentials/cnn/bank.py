"""The bank of the CNN potential as sums of table rows, forward and backward.

    f_k,i = sum_o F_k[o] y_{i+o} = sum_o table[x_{i+o}, (k, o)],        table[word, (k, o)] = F_k[o] y(word)

Shapes: N words in all, U distinct words, P (width, offset) pairs, K widths, w filters a width, R rows of the layers.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from trflm.potentials.cnn.layers import Rows
from trflm.speed import compiled
from trflm.speed.products import times
from trflm.text import Batch


@dataclass(frozen=True)
class TableIndex:
    """Which table rows each bank output sums, and which bank outputs each distinct word's table row went into.

    A table row is slot * P + pair, where slot 0 is the zeros beyond a sentence; a bank output is row * K + (width - 1). Both
    directions are lists of bags, so that forward and backward are the same fused gather-and-sum, and deterministic on
    every device.
    """

    inputs: Tensor  # [N*P] table rows, bag after bag
    input_bags: Tensor  # [R*K] where each bag starts; those of the rows between sentences are empty
    outputs: Tensor  # [N*P] bank outputs, bag after bag; one bag for each pair of each distinct word. Output 0 stands for none
    output_bags: Tensor  # [U*P]

    @classmethod
    def build(
        cls, batch: Batch, rows: Rows, word_N: Tensor, slot_U: Tensor, offsets: list[tuple[int, int]], n_widths: int
    ) -> "TableIndex":
        """`word_N` numbers the distinct words of the batch, `slot_U` says where their rows are."""
        P, device = len(offsets), batch.device
        pair_P, first_K = torch.arange(P, device=device), torch.arange(n_widths, device=device)
        before_R = rows.inside_R.cumsum(0) - rows.inside_R.long()
        input_bags_RK = before_R[:, None] * P + (first_K * (first_K + 1) // 2) * rows.inside_R[:, None]
        count_U = torch.bincount(word_N, minlength=len(slot_U))
        start_U = count_U.cumsum(0) - count_U
        output_bags_UP = P * start_U[:, None] + count_U[:, None] * pair_P

        fill = fill_compiled if compiled.usable(word_N) else fill_by_torch
        inputs, outputs = fill(batch, rows, word_N, slot_U, count_U, torch.tensor(offsets, device=device).t())
        return cls(inputs, input_bags_RK.flatten().int(), outputs, output_bags_UP.flatten().int())


def fill_compiled(
    batch: Batch, rows: Rows, word_N: Tensor, slot_U: Tensor, count_U: Tensor, pairs_2P: Tensor
) -> tuple[Tensor, Tensor]:
    """`inputs` and `outputs` of the index."""
    from trflm.potentials.cnn.bank_loops import fill_rows

    inputs, outputs = torch.empty(2, len(word_N) * pairs_2P.shape[1], dtype=torch.int32)
    of_words = (word_N, batch.position_N, batch.remaining_N, rows.row_N)
    tensors = (*of_words, slot_U, count_U, pairs_2P.contiguous(), inputs, outputs)
    fill_rows(*(tensor.numpy() for tensor in tensors))
    return inputs, outputs


def fill_by_torch(
    batch: Batch, rows: Rows, word_N: Tensor, slot_U: Tensor, count_U: Tensor, pairs_2P: Tensor
) -> tuple[Tensor, Tensor]:
    """The same by torch's operations."""
    width_P, offset_P = pairs_2P
    start_U = count_U.cumsum(0) - count_U
    N, P, device, n_widths = batch.n_words, len(offset_P), batch.device, int(width_P.max())
    pair_P, place_N = torch.arange(P, device=device), torch.arange(N, device=device)
    offset_R = torch.arange(int(offset_P.min()), int(offset_P.max()) + 1, device=device)  # the places the widest filter sees
    column_P = offset_P - offset_R[0]

    # Forward: the word at each place around each position; slot 0, the zeros, beyond the ends.
    inside_NR = (batch.position_N[:, None] + offset_R >= 0) & (batch.remaining_N[:, None] - offset_R >= 0)
    slot_NR = slot_U[word_N][(place_N[:, None] + offset_R).clamp_(0, N - 1)] * inside_NR * P
    inputs_NP = slot_NR.int()[:, column_P] + pair_P.int()

    # Backward: an occurrence of a word at position p fed, through pair (k, o), the bank output k at p - o.
    order_N = torch.argsort(word_N, stable=True)
    inside_NR = (batch.position_N[order_N, None] - offset_R >= 0) & (batch.remaining_N[order_N, None] + offset_R >= 0)
    user_NR = ((rows.row_N[order_N, None] - offset_R) * n_widths).int()
    user_NP = (user_NR[:, column_P] + (width_P - 1).int()) * inside_NR[:, column_P]
    word_of_N = word_N[order_N]
    rank_N = place_N - start_U[word_of_N]
    slot_NP = (P * start_U[word_of_N] + rank_N)[:, None] + count_U[word_of_N, None] * pair_P
    outputs = torch.empty(N * P, dtype=torch.int32, device=device)
    outputs[slot_NP.flatten()] = user_NP.flatten()
    return inputs_NP.flatten(), outputs


class SumRows(torch.autograd.Function):
    """y [U, d_p] and F [d_p, P*w] -> [R, K*w]: each bank output is the sum of its rows of the table, whose rows y F come
    ready made; backward, each row's gradient is the sum of the gradients of the outputs it went into."""

    @staticmethod
    def forward(ctx, y_U: Tensor, bank: Tensor, table: Tensor, index: TableIndex, n_rows: int) -> Tensor:
        ctx.save_for_backward(y_U, bank)
        ctx.index = index
        return F.embedding_bag(index.inputs, table, index.input_bags, mode="sum").view(n_rows, -1)

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        y_U, bank = ctx.saved_tensors
        index: TableIndex = ctx.index
        n_pairs = len(index.output_bags) // len(y_U)
        grad = grads[0].view(-1, bank.shape[1] // n_pairs)  # its first row, before the first sentence, is zero
        into_table = F.embedding_bag(index.outputs, grad, index.output_bags, mode="sum").view(len(y_U), -1)
        return times(into_table, bank.t()), times(y_U.t(), into_table), None, None, None
