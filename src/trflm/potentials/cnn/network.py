"""The layers of the CNN potential (the equations are in `model`), on packed batches without padding.

y_i depends on word x_i alone and the bank is linear in y before its ReLU. So the bank's output is a sum of rows of a
table, table[word, (width, offset)] = F_k[o] y(word), built once for the distinct words (`bank`); the zeros around a
sentence are one more word, whose y is 0. A stack layer of width 3 needs 4/9 of its multiply-adds by minimal filtering
(`layers`, `winograd`). Both are exact, forward and backward.

Shapes: B sentences, N words in all, U distinct words, P (width, offset) pairs of the bank, K widths, w filters a width.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trflm.potentials.cnn import bf16
from trflm.potentials.cnn.bank import SumRows, TableIndex
from trflm.potentials.cnn.layers import Convolution, MaxPool, PooledConvolution, Rows, half_offsets
from trflm.potentials.dropout import check_share, dropout
from trflm.ranges import Layers, Positive, Share, Size, Width
from trflm.speed.bf16 import switched_on
from trflm.speed.products import multiply
from trflm.speed.word_cache import WordCache
from trflm.text import Batch

WORDS = 64  # the words of a table are a multiple of it


@dataclass(frozen=True)
class CNNSize:
    """The dimensions of the potential; the defaults are the paper's (its table 3), which has no dropout.

    Dropout is on the pooled output of the bank, the widest layer (K*w channels), before the stack.
    """

    embedding: Size = 256  # d_e: numbers that stand for a word
    projection: Size = 128  # d_p: to so many they are projected
    bank_width: Width = 10  # K: filter widths 1..K
    bank_filters: Size = 128  # w: filters of each width
    pool_width: Width = 2  # places of which max pooling takes the greatest value
    stack_layers: Layers = 3  # n: layers above the bank
    stack_width: Width = 3  # of their filters
    stack_filters: Size = 128  # d_s: filters of each of them
    init: Positive = 0.1  # parameters start uniform in +-init
    dropout: Share = 0.0  # on the pooled output of the bank

    def __post_init__(self) -> None:
        for name in ("embedding", "projection", "bank_width", "bank_filters", "pool_width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: must be at least 1")
        if self.stack_layers < 1 or self.stack_width < 1 or self.stack_filters < 1:
            raise ValueError("stack_layers, stack_width and stack_filters must be at least 1")
        if not self.init > 0:
            raise ValueError(f"init = {self.init}: must be positive")
        check_share(self.dropout)

    @property
    def reach(self) -> int:
        """No position sees a word that is so far away or further."""
        return self.bank_width + self.pool_width + self.stack_layers * self.stack_width


class CNNLayers(nn.Module):
    """All but the last line of the equations: d_s features a position. Its parameters are not started here."""

    score_in_bf16 = False  # the products of `score`, where the CPU has instructions for it
    train_in_bf16 = False  # those of training (`bf16`)

    def __init__(self, config: CNNSize, n_words: int) -> None:
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
        self.word_table.forget()

    def features(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """[N, d_s] ReLU(sum_j a_j * Y_j)."""
        h_RS, row_N = self.features_of_rows(batch, rng)
        return h_RS.index_select(0, row_N)

    def features_of_rows(self, batch: Batch, rng: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """([R, d_s] the features where the layers have them, zero between sentences; [N] the row of each position)."""
        rows = Rows(batch, [self.config.pool_width, self.config.stack_width])
        f_RC = self._bank(batch, rows)
        if f_RC.dtype == torch.bfloat16 and (rng is None or self.config.dropout == 0):
            return torch.relu(bf16.Stack16.apply(f_RC, self.skip, rows, *self.stack)), rows.row_N
        h_RC = self._first_layer(f_RC.to(self.skip.dtype), rows, rng)
        total_RS = self.skip[0] * h_RC
        for weight, a_S in zip(self.stack[1:], self.skip[1:], strict=True):
            h_RC = Convolution.apply(h_RC, weight, rows)
            total_RS = torch.addcmul(total_RS, a_S, h_RC)
        return torch.relu(total_RS), rows.row_N

    def _first_layer(self, f_RC: Tensor, rows: Rows, rng: torch.Generator | None) -> Tensor:
        """Pooling, and the first layer of the stack."""
        width, weight, share = self.config.pool_width, self.stack[0], self.config.dropout
        if PooledConvolution.applies(width, weight) and (rng is None or share == 0):
            return PooledConvolution.apply(f_RC, weight, rows)
        return Convolution.apply(dropout(MaxPool.apply(f_RC, width, rows), share, rng), weight, rows)

    def _bank(self, batch: Batch, rows: Rows) -> Tensor:
        """[R, K*w] the bank before its ReLU, as sums of table rows; zero between sentences. In bf16 if that is wanted."""
        words_U, word_N = batch.distinct_words
        if torch.is_grad_enabled():  # products are prepared for their sizes; a kept row shall not depend on what was filled up
            words_U = F.pad(words_U, (0, -len(words_U) % WORDS))
        in_bf16 = self.train_in_bf16 and bf16.applies(self.embedding, self.config.pool_width)
        factors = F.embedding(words_U, self.embedding), self.projection, self.projection_bias
        y_U = torch.relu(F.linear(*((factor.bfloat16() for factor in factors) if in_bf16 else factors)))
        table, slot_U = (None, torch.arange(1, 1 + len(words_U))) if in_bf16 else self.word_table.of(self, words_U)
        index = TableIndex.build(batch, rows, word_N.long(), slot_U, self.offsets, self.config.bank_width)
        if table is None:
            return bf16.SumRows16.apply(y_U, self.bank.flatten(1), index, rows.n_rows, len(self.offsets))
        return SumRows.apply(y_U, self.bank.flatten(1), table, index, rows.n_rows)


class WordTable(WordCache):
    """The table of a CNN, P rows [w] a word."""

    def of(self, cnn: CNNLayers, words_U: Tensor) -> tuple[Tensor, Tensor]:
        """(table [.., w], slot_U): the rows of word u are P * slot_U[u] and the following."""

        def compute(words: Tensor, out: Tensor) -> None:
            y_U = torch.relu(F.linear(cnn.embedding[words], cnn.projection, cnn.projection_bias))
            multiply(y_U, cnn.bank.flatten(1), out)

        parameters = (cnn.embedding, cnn.projection, cnn.projection_bias, cnn.bank)
        with torch.no_grad():
            rows, slot_U = self.find(words_U, len(cnn.embedding), cnn.bank[0].numel(), parameters, compute)
        return rows.view(-1, cnn.config.bank_filters), slot_U


def cnns(module: nn.Module) -> Iterator[CNNLayers]:
    """The CNNs of a potential or a field, alone or as parts of a larger one."""
    return (part for part in module.modules() if isinstance(part, CNNLayers))


def scoring_in_bf16(module: nn.Module, wanted: bool) -> AbstractContextManager[None]:
    """Within, the products of `score` are in bf16, if that is wanted."""
    return switched_on(cnns(module) if wanted else (), "score_in_bf16")
