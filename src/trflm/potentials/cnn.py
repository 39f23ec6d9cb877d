"""The deep CNN potential phi(x; theta) of the paper (section 3), computed on packed batches without padding.

    y_i   = ReLU(W_p e(x_i) + b_p)                                    embedding and projection
    f_k,i = ReLU(sum_o F_k[o] y_{i+o})        k = 1..K                bank of half convolutions, spliced
    b_i   = max(f_i, f_{i+1})                                         max-pooling, width 2, stride 1
    Y_j,i = ReLU(sum_o S_j[o] Y_{j-1,i+o})    j = 1..n, Y_0 = b       stack of half convolutions
    phi   = lambda . sum_i ReLU(sum_j a_j * Y_j,i) + c

y_i depends on word x_i alone and the bank is linear in y before its ReLU. So the bank's output is a sum of rows of a
table, table[word, (width, offset)] = F_k[o] y(word), built once for the distinct words of the batch; the zeros around
a sentence are one more word, whose y is 0. A stack layer is one matmul to width * d_s columns followed by shifted
adds. Both are exact, forward and backward.

Shapes: B sentences, N words in all, U distinct words, P (width, offset) pairs of the bank, K widths, w filters a width.
"""

import functools
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trflm.potentials.dropout import check_share, dropout
from trflm.text import Batch


@dataclass(frozen=True)
class CNNConfig:
    """The dimensions of the potential; the defaults are the paper's (its table 3), which has no dropout.

    Dropout is on the pooled output of the bank, the widest layer (K*w channels), before the stack.
    """

    embedding: int = 256  # d_e
    projection: int = 128  # d_p
    bank_width: int = 10  # K: filter widths 1..K
    bank_filters: int = 128  # w: filters of each width
    pool_width: int = 2
    stack_layers: int = 3  # n
    stack_width: int = 3
    stack_filters: int = 128  # d_s
    init: float = 0.1  # parameters start uniform in +-init
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("embedding", "projection", "bank_width", "bank_filters", "pool_width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: must be at least 1")
        if self.stack_layers < 1 or self.stack_width < 1 or self.stack_filters < 1:
            raise ValueError("stack_layers, stack_width and stack_filters must be at least 1")
        if not self.init > 0:
            raise ValueError(f"init = {self.init}: must be positive")
        check_share(self.dropout)


def half_offsets(width: int) -> range:
    """Where a half convolution of this width looks, relative to its own position: width - 1 zeros of padding in all,
    the odd one on the right (as TensorFlow's SAME and the authors' code have it)."""
    left = (width - 1) // 2
    return range(-left, width - left)


class CNNLayers(nn.Module):
    """All of the network but the last line of the equations: d_s features a position. Its parameters are not started here."""

    score_in_bf16 = False  # the products of `score`, where the CPU has instructions for it

    def __init__(self, config: CNNConfig, n_words: int) -> None:
        super().__init__()
        self.config = config
        self.offsets = [(k, o) for k in range(1, config.bank_width + 1) for o in half_offsets(k)]  # the P pairs
        d_p, w, d_s = config.projection, config.bank_filters, config.stack_filters
        inputs = [w * config.bank_width] + [d_s] * (config.stack_layers - 1)
        self.embedding = nn.Parameter(torch.empty(n_words, config.embedding))
        self.projection = nn.Parameter(torch.empty(d_p, config.embedding))  # W_p
        self.projection_bias = nn.Parameter(torch.empty(d_p))  # b_p
        self.bank = nn.Parameter(torch.empty(d_p, len(self.offsets), w))  # F
        self.stack = nn.ParameterList(torch.empty(d_in, config.stack_width, d_s) for d_in in inputs)  # S
        self.skip = nn.Parameter(torch.empty(config.stack_layers, d_s))  # a
        self.word_table = WordTable()

    def forget(self) -> None:
        self.word_table = WordTable()

    def features(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """[N, d_s] ReLU(sum_j a_j * Y_j)."""
        edges = Edges(batch)
        h_NC = dropout(MaxPool.apply(self._bank(batch), self.config.pool_width, edges), self.config.dropout, rng)
        total_NS: Tensor | None = None
        for weight, a_S in zip(self.stack, self.skip, strict=True):
            h_NC = torch.relu(self._convolve(h_NC, weight, edges))
            total_NS = a_S * h_NC if total_NS is None else torch.addcmul(total_NS, a_S, h_NC)
        assert total_NS is not None  # stack_layers >= 1
        return torch.relu(total_NS)

    def _bank(self, batch: Batch) -> Tensor:
        """[N, K*w] the bank before its ReLU, as sums of table rows."""
        index = TableIndex.build(batch, self.offsets, self.config.bank_width)
        y_U = torch.relu(F.linear(F.embedding(index.words_U, self.embedding), self.projection, self.projection_bias))
        y_U = F.pad(y_U, (0, 0, 0, 1))  # the zero padding of sentences is one more word, whose y is 0
        table = (y_U @ self.bank.flatten(1)).view(-1, self.config.bank_filters)  # [(U+1)*P, w]
        return SumRows.apply(table, index).view(batch.n_words, -1)

    def _convolve(self, h_NC: Tensor, weight: Tensor, edges: "Edges") -> Tensor:
        """[N, d_in] -> [N, d_s]: a half convolution as one matmul, then a shifted add for every offset."""
        z = (h_NC @ weight.flatten(1)).view(len(h_NC), *weight.shape[1:])
        parts = [Shift.apply(z[:, o], offset, edges) for o, offset in enumerate(half_offsets(weight.shape[1]))]
        return functools.reduce(torch.add, parts)


class CNN(CNNLayers):
    """phi(x) of a packed batch. See the equations at the head of this file."""

    def __init__(self, config: CNNConfig, n_words: int, rng: torch.Generator | None = None) -> None:
        super().__init__(config, n_words)
        self.readout = nn.Parameter(torch.empty(config.stack_filters))  # lambda
        self.constant = nn.Parameter(torch.empty(()))  # c
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -config.init, config.init, generator=rng)

    def forward(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """phi_B."""
        return batch.sum_words(self.contributions(batch, rng))

    def score(self, batch: Batch) -> Tensor:
        """phi_B without gradient, each distinct window computed once."""
        from trflm.potentials import cnn_windows  # it imports this file

        return batch.sum_words(cnn_windows.contributions(self, batch))

    def contributions(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """[N] what each position adds to phi; c is shared equally by the words of the sentence."""
        return self.features(batch, rng) @ self.readout + (self.constant / batch.lengths_B)[batch.sentence_N]


class WordTable:
    """Rows of the table, [P*w] a word, computed when a word is first scored and kept until a parameter changes.

    Blocks of a Markov move and lists of utterances use the same few thousand words again and again. Slot 0 is all zeros.
    """

    def __init__(self) -> None:
        self.most_bytes = 1 << 29  # beyond this the table starts anew with the words at hand
        self.versions: object = None
        self.slot_V = torch.empty(0)
        self.rows = torch.empty(0)
        self.used = 0  # rows; the others are room to grow

    def slots(self, cnn: CNNLayers, words_U: Tensor) -> Tensor:
        """[U] where the rows of these words are in `rows`."""
        used = (cnn.embedding, cnn.projection, cnn.projection_bias, cnn.bank)
        versions = tuple((p.data_ptr(), p._version) for p in used)
        full = self.used * cnn.bank[0].nbytes > self.most_bytes
        if self.versions != versions or full:
            self.versions = versions
            self.slot_V = torch.zeros(len(cnn.embedding), dtype=torch.int64, device=words_U.device)
            self.rows = cnn.bank.new_zeros(1 + len(words_U), cnn.bank[0].numel())
            self.used = 1
        new_U = words_U[self.slot_V[words_U] == 0]
        first, self.used = self.used, self.used + len(new_U)
        if self.used > len(self.rows):  # twice the room, so that a row is moved once on average
            self.rows = F.pad(self.rows, (0, 0, 0, self.used))
        if len(new_U):
            y_U = torch.relu(F.linear(cnn.embedding[new_U], cnn.projection, cnn.projection_bias))
            self.rows[first : self.used] = y_U @ cnn.bank.flatten(1)
            self.slot_V[new_U] = torch.arange(first, self.used, device=words_U.device)
        return self.slot_V[words_U]


class Edges:
    """Which positions look across an end of their sentence when they look `offset` words to the right."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.found: dict[int, Tensor] = {}

    def __getitem__(self, offset: int) -> Tensor:
        if offset not in self.found:
            room_N = self.batch.remaining_N if offset > 0 else self.batch.position_N
            self.found[offset] = (room_N < abs(offset)).nonzero().squeeze(1)
        return self.found[offset]


class Shift(torch.autograd.Function):
    """out_i = rows_{i+offset} within the sentence, 0 beyond its ends. Its transpose is the shift by -offset."""

    @staticmethod
    def forward(ctx, rows_NC: Tensor, offset: int, edges: Edges) -> Tensor:
        ctx.offset, ctx.edges = offset, edges
        return shift(rows_NC, offset, edges)

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, None, None]:
        return shift(grads[0], -ctx.offset, ctx.edges), None, None


def shift(rows_NC: Tensor, offset: int, edges: Edges) -> Tensor:
    if offset == 0:
        return rows_NC
    out = torch.empty_like(rows_NC, memory_format=torch.contiguous_format)
    reach = min(abs(offset), len(out))
    if offset > 0:
        out[: len(out) - reach] = rows_NC[reach:]
    else:
        out[reach:] = rows_NC[: len(out) - reach]
    out[edges[offset]] = 0
    return out


class MaxPool(torch.autograd.Function):
    """ReLU(max over the window of f). The ReLU of the bank commutes with the maximum, so it is applied once, last, and
    the zeros beyond the sentence never win against it. Of equal values the first is the winner."""

    @staticmethod
    def forward(ctx, f_NC: Tensor, width: int, edges: Edges) -> Tensor:
        offsets = list(half_offsets(width))
        pooled = shift(f_NC, offsets[0], edges)
        leads = []  # by how much each later place of the window exceeds the best before it
        for offset in offsets[1:]:
            seen = shift(f_NC, offset, edges)
            leads.append(seen - pooled)
            pooled = torch.maximum(pooled, seen)
        pooled = pooled.relu_() if leads else pooled.relu()
        ctx.save_for_backward(pooled, *leads)
        ctx.offsets, ctx.edges = offsets, edges
        return pooled

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, None, None]:
        pooled, *leads = ctx.saved_tensors
        left = torch.ops.aten.threshold_backward(grads[0], pooled, 0)  # the gradient whose winner is not yet found
        into_f: Tensor | None = None
        for offset, lead in zip(ctx.offsets[:0:-1], leads[::-1], strict=True):
            won = torch.ops.aten.threshold_backward(left, lead, 0)  # left where lead > 0; several times faster than where
            left = left - won
            won = shift(won, -offset, ctx.edges)
            into_f = won if into_f is None else into_f.add_(won)
        first = shift(left, -ctx.offsets[0], ctx.edges)
        return first if into_f is None else into_f.add_(first), None, None


@dataclass(frozen=True)
class TableIndex:
    """Which table rows each bank output sums, and which bank outputs each table row went into.

    A table row is word * P + pair; a bank output is position * K + (width - 1). Both directions are lists of
    bags, so that forward and backward are the same fused gather-and-sum, and deterministic on every device.
    """

    words_U: Tensor  # the distinct words of the batch
    rows: Tensor  # [N*P] table rows, bag after bag; one bag for each bank output
    row_bags: Tensor  # [N*K] where each bag starts
    outputs: Tensor  # [N*P] bank outputs, bag after bag; one bag for each table row. N*K means none
    output_bags: Tensor  # [(U+1)*P]

    @classmethod
    def build(cls, batch: Batch, offsets: list[tuple[int, int]], n_widths: int) -> "TableIndex":
        N, P, device = batch.n_words, len(offsets), batch.device
        words_U, word_N = torch.unique(batch.ids_N, return_inverse=True)
        U = len(words_U)
        reach = half_offsets(n_widths)
        column_P = torch.tensor([o - reach.start for _, o in offsets], device=device)
        width_P = torch.tensor([k for k, _ in offsets], device=device)
        pair_P = torch.arange(P, device=device)
        offset_R = torch.arange(reach.start, reach.stop, device=device)  # the R = K places the widest filter sees

        # Forward: the word at each place around each position; word U, the zeros, beyond the ends.
        place_N = torch.arange(N, device=device)
        seen_NR = place_N[:, None] + offset_R
        inside_NR = (batch.position_N[:, None] + offset_R >= 0) & (batch.remaining_N[:, None] - offset_R >= 0)
        word_NR = torch.where(inside_NR, word_N[seen_NR.clamp(0, N - 1)], U)
        rows_NP = word_NR[:, column_P] * P + pair_P
        first_K = torch.arange(n_widths, device=device)
        row_bags_NK = place_N[:, None] * P + first_K * (first_K + 1) // 2

        # Backward: occurrence s of word u at position p fed, through pair (k, o), the bank output k at p - o.
        order_N = torch.argsort(word_N, stable=True)
        counts_U = torch.bincount(word_N, minlength=U + 1)
        starts_U = counts_U.cumsum(0) - counts_U
        user_NR = order_N[:, None] - offset_R
        inside_NR = (batch.position_N[order_N, None] - offset_R >= 0) & (batch.remaining_N[order_N, None] + offset_R >= 0)
        user_NP = user_NR[:, column_P] * n_widths + width_P - 1
        user_NP = torch.where(inside_NR[:, column_P], user_NP, N * n_widths)
        word_of_N = word_N[order_N]
        rank_N = place_N - starts_U[word_of_N]
        slot_NP = (P * starts_U[word_of_N] + rank_N)[:, None] + counts_U[word_of_N, None] * pair_P
        outputs = torch.empty(N * P, dtype=torch.int32, device=device)
        outputs[slot_NP.flatten()] = user_NP.flatten().int()
        output_bags_UP = P * starts_U[:, None] + counts_U[:, None] * pair_P
        return cls(words_U, rows_NP.flatten().int(), row_bags_NK.flatten().int(), outputs, output_bags_UP.flatten().int())


class SumRows(torch.autograd.Function):
    """[(U+1)*P, w] -> [N*K, w]: each bank output is the sum of its table rows; backward, each table row's gradient is
    the sum of the gradients of the outputs it went into."""

    @staticmethod
    def forward(ctx, table: Tensor, index: TableIndex) -> Tensor:
        ctx.index = index
        return F.embedding_bag(index.rows, table, index.row_bags, mode="sum")

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, None]:
        index: TableIndex = ctx.index
        none_last = F.pad(grads[0], (0, 0, 0, 1))
        return F.embedding_bag(index.outputs, none_last, index.output_bags, mode="sum"), None
