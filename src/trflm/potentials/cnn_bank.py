"""The bank of the CNN potential as sums of table rows, forward and backward.

    f_k,i = sum_o F_k[o] y_{i+o} = sum_o table[x_{i+o}, (k, o)],        table[word, (k, o)] = F_k[o] y(word)

Shapes: N words in all, U distinct words, P (width, offset) pairs, K widths, w filters a width, R rows of the layers.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from trflm.potentials.cnn_layers import Rows, half_offsets
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
        N, P, device = batch.n_words, len(offsets), batch.device
        reach = half_offsets(n_widths)
        column_P = torch.tensor([o - reach.start for _, o in offsets], device=device)
        width_P = torch.tensor([k for k, _ in offsets], device=device)
        pair_P = torch.arange(P, device=device)
        offset_R = torch.arange(reach.start, reach.stop, device=device)  # the places the widest filter sees

        # Forward: the word at each place around each position; slot 0, the zeros, beyond the ends.
        place_N = torch.arange(N, device=device)
        inside_NR = (batch.position_N[:, None] + offset_R >= 0) & (batch.remaining_N[:, None] - offset_R >= 0)
        slot_NR = slot_U[word_N][(place_N[:, None] + offset_R).clamp_(0, N - 1)] * inside_NR * P
        inputs_NP = slot_NR.int()[:, column_P] + pair_P.int()
        first_K = torch.arange(n_widths, device=device)
        before_R = rows.inside_R.cumsum(0) - rows.inside_R.long()
        input_bags_RK = before_R[:, None] * P + (first_K * (first_K + 1) // 2) * rows.inside_R[:, None]

        # Backward: an occurrence of a word at position p fed, through pair (k, o), the bank output k at p - o.
        order_N = torch.argsort(word_N, stable=True)
        counts_U = torch.bincount(word_N, minlength=len(slot_U))
        starts_U = counts_U.cumsum(0) - counts_U
        inside_NR = (batch.position_N[order_N, None] - offset_R >= 0) & (batch.remaining_N[order_N, None] + offset_R >= 0)
        user_NR = ((rows.row_N[order_N, None] - offset_R) * n_widths).int()
        user_NP = (user_NR[:, column_P] + (width_P - 1).int()) * inside_NR[:, column_P]
        word_of_N = word_N[order_N]
        rank_N = place_N - starts_U[word_of_N]
        slot_NP = (P * starts_U[word_of_N] + rank_N)[:, None] + counts_U[word_of_N, None] * pair_P
        outputs = torch.empty(N * P, dtype=torch.int32, device=device)
        outputs[slot_NP.flatten()] = user_NP.flatten()
        output_bags_UP = P * starts_U[:, None] + counts_U[:, None] * pair_P
        return cls(inputs_NP.flatten(), input_bags_RK.flatten().int(), outputs, output_bags_UP.flatten().int())


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
        into_bank = (into_table.t() @ y_U).t()  # faster by a fifth than y_U.t() @ into_table
        return into_table @ bank.t(), into_bank, None, None, None
