"""The CNN potential for scoring: every distinct window of words is computed once, layer by layer.

A position of layer L depends on the words of a window only (10, 11, 13, 15, 17 words for bank, pool and three stack layers
of the paper's size). Hypotheses of one utterance, or trials of one Markov move, share most of their windows. Each layer is
computed on its distinct windows; the matmul of a stack layer runs on the windows of the layer below, then rows are
gathered and added. Exact: windows are told apart by 64-bit sums of random numbers, and each is compared with the window
that stands for it, so two different ones are never mixed up.

Shapes: N positions, D distinct windows of a layer (one more row of zeros stands for what is beyond a sentence), C channels.
"""

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

from trflm.potentials.cnn import CNN, CNNLayers, half_offsets
from trflm.text import Batch


def contributions(cnn: CNN, batch: Batch) -> Tensor:
    """[N] what each position adds to phi, without gradient; equal to `CNN.contributions`."""
    with torch.no_grad():
        h_DS, row_N = features(cnn, batch)
        return (h_DS @ cnn.readout)[row_N] + (cnn.constant / batch.lengths_B)[batch.sentence_N]


def features(cnn: CNNLayers, batch: Batch) -> tuple[Tensor, Tensor]:
    """([D, d_s], [N]) the features of each distinct window, and the window of each position; equal to `CNNLayers.features`."""
    with torch.no_grad():
        windows = Windows(batch, cnn)
        config = cnn.config
        bank = windows.layer(half_offsets(config.bank_width))
        pool = bank.above(half_offsets(config.pool_width))
        f_DC = sum_table(cnn, windows, bank.rep_D)
        h_DC = functools.reduce(torch.maximum, [f_DC[row_D] for row_D in pool.rows_below]).relu_()
        layer, outputs = pool, []
        for weight in cnn.stack:
            width, d_s = weight.shape[1:]
            z = with_zero_row(h_DC @ weight.flatten(1)).view(-1, d_s)  # row * width + offset
            layer = layer.above(half_offsets(width))
            reads_Dw = torch.stack([row_D * width + o for o, row_D in enumerate(layer.rows_below)], 1)
            h_DC = F.embedding_bag(reads_Dw, z, mode="sum").relu_()
            outputs.append((layer, h_DC))
        top, _ = outputs[-1]
        total_DS = sum(a_S * h_DS[layer.row_N[top.rep_D]] for a_S, (layer, h_DS) in zip(cnn.skip, outputs, strict=True))
        assert isinstance(total_DS, Tensor)
        return total_DS.relu_(), top.row_N


def sum_table(cnn: CNNLayers, windows: "Windows", rep_D: Tensor) -> Tensor:
    """[D+1, K*w] the bank before its ReLU for the windows around these positions, and a last row of zeros."""
    w, K, P = cnn.config.bank_filters, cnn.config.bank_width, len(cnn.offsets)
    slot_U = cnn.word_table.slots(cnn, windows.words_U)
    slot_DR = F.pad(slot_U, (0, 1))[windows.word_NR[rep_D]]  # the word of zeros has slot 0
    columns = torch.tensor([windows.column(o) for _, o in cnn.offsets], device=rep_D.device)
    rows = slot_DR[:, columns] * P + torch.arange(P, device=rep_D.device)
    first_K = torch.arange(K, device=rep_D.device)
    bags = torch.arange(len(rep_D) + 1, device=rep_D.device)[:, None] * P + first_K * (first_K + 1) // 2
    bags = bags.clamp(max=rows.numel())  # the last K are empty: the row of zeros
    table = cnn.word_table.rows.view(-1, w)
    return F.embedding_bag(rows.flatten().int(), table, bags.flatten().int(), mode="sum").view(-1, K * w)


def with_zero_row(rows_DC: Tensor) -> Tensor:
    return F.pad(rows_DC, (0, 0, 0, 1))


class Windows:
    """The words around every position of a batch, and random numbers to tell windows apart."""

    def __init__(self, batch: Batch, cnn: CNNLayers) -> None:
        config, device = cnn.config, batch.device
        reaches = [half_offsets(config.bank_width), half_offsets(config.pool_width)]
        reaches += [half_offsets(config.stack_width)] * config.stack_layers
        self.batch = batch
        self.first = sum(reach.start for reach in reaches)
        stop = sum(reach.stop - 1 for reach in reaches) + 1
        self.words_U, word_N = torch.unique(batch.ids_N, return_inverse=True)
        self.zeros = len(self.words_U)  # the number of the word that stands for what is beyond a sentence
        offset_R = torch.arange(self.first, stop, device=device)
        place_NR = torch.arange(batch.n_words, device=device)[:, None] + offset_R
        inside_NR = (batch.position_N[:, None] + offset_R >= 0) & (batch.remaining_N[:, None] - offset_R >= 0)
        self.word_NR = torch.where(inside_NR, word_N[place_NR.clamp(0, batch.n_words - 1)], self.zeros)
        # One random number for each (offset, word); the fixed seed only makes timing repeatable, any seed gives the result.
        rng = torch.Generator().manual_seed(0)
        number = torch.randint(-(2**62), 2**62, (self.zeros + 1, len(offset_R)), generator=rng).to(device)
        number_NR = torch.gather(number, 0, self.word_NR)
        self.sums_NR = F.pad(number_NR.cumsum(1), (1, 0))

    def column(self, offset: int) -> int:
        return offset - self.first

    def layer(self, reach: range) -> "Layer":
        """The distinct windows of a layer that sees these offsets."""
        key_N = self.sums_NR[:, self.column(reach.stop)] - self.sums_NR[:, self.column(reach.start)]
        keys_D, row_N = torch.unique(key_N, return_inverse=True)
        rep_D = torch.empty_like(keys_D)
        rep_D[row_N] = torch.arange(len(row_N), device=row_N.device)
        words_NW = self.word_NR[:, self.column(reach.start) : self.column(reach.stop)]
        if not torch.equal(words_NW[rep_D][row_N], words_NW):  # once in 10^9 batches: two windows have one number
            _, row_N = torch.unique(words_NW, dim=0, return_inverse=True)
            rep_D = torch.empty(int(row_N.max()) + 1, dtype=torch.int64, device=row_N.device)
            rep_D[row_N] = torch.arange(len(row_N), device=row_N.device)
        return Layer(self, reach, row_N, rep_D)


class Layer:
    """The distinct windows of one layer: `row_N[i]` is the window of position i, `rep_D[d]` a position that has window d."""

    def __init__(self, windows: Windows, reach: range, row_N: Tensor, rep_D: Tensor) -> None:
        self.windows, self.reach, self.row_N, self.rep_D = windows, reach, row_N, rep_D
        self.rows_below: list[Tensor] = []  # for each offset of the layer's filter: the rows of the layer below it reads

    def above(self, filter_reach: range) -> "Layer":
        """The layer whose filters read this one at these offsets."""
        reach = range(self.reach.start + filter_reach.start, self.reach.stop + filter_reach.stop - 1)
        layer = self.windows.layer(reach)
        batch, beyond = self.windows.batch, len(self.rep_D)
        for offset in filter_reach:
            inside_D = (batch.position_N[layer.rep_D] + offset >= 0) & (batch.remaining_N[layer.rep_D] - offset >= 0)
            place_D = (layer.rep_D + offset).clamp(0, batch.n_words - 1)
            layer.rows_below.append(torch.where(inside_D, self.row_N[place_D], beyond))
        return layer
