"""The bidirectional LSTM potential (Wang and Ou 2018, "Learning neural trans-dimensional random field language models with
noise-contrastive estimation").

    phi(x) = sum_{t=1}^{l+1} f_{t-1} . e(x_t) + sum_{t=0}^{l} b_{t+1} . e(x_t) + sum_{t=1}^{l} bias(x_t)

x_0 and x_{l+1} are markers of the start and the end. f_t is the forward LSTM's top layer after x_0 .. x_t, b_t the backward
LSTM's after x_{l+1} .. x_t. e is one table for the inputs and the products. What an LSTM reads at a position comes from an
input layer: the embedding itself (`Embedding`), or the features of a CNN (`cnn_blstm`).

Shapes: B sentences, N words in all, M = N + 2B words and markers, D distinct inputs, R = N + B states of a direction (the last
marker is not read), P those that are computed, E embedding, I inputs, H units, U distinct words.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from trflm.kinds import Start
from trflm.potentials.dropout import check_share, dropout
from trflm.potentials.protocol import start_from_word2vec
from trflm.ranges import Layers, Positive, Share, Size
from trflm.recurrent.fast_recurrence import read_fast
from trflm.recurrent.prefixes import prefix_tree
from trflm.recurrent.recurrence import read_on, read_packed, read_tree
from trflm.speed.products import linear
from trflm.text import Batch
from trflm.text.batch import SCORING_WORDS, is_long

SHARED = 0.8  # a tree of prefixes is used if it has at most so large a share of the states


@dataclass(frozen=True)
class BLSTMConfig:
    """[model] kind = "blstm": the dimensions of the potential. Each direction is a stack of `layers` of its own.

    Dropout is on the inputs of each direction (one mask for each distinct word of the batch), between layers and on the
    outputs.
    """

    embedding: Size = 200  # numbers that stand for a word
    units: Size = 200  # of each direction; if not `embedding`, a linear map leads from the one to the other
    layers: Layers = 1  # of each direction
    dropout: Share = 0.0  # on inputs, between layers and on outputs
    init: Positive = 0.1  # parameters start uniform in +-init, the words' biases at 0
    kind: Literal["blstm"] = "blstm"
    word2vec: bool = False  # start the embedding from word2vec vectors of the training text

    def __post_init__(self) -> None:
        for name in ("embedding", "units", "layers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: must be at least 1")
        if not self.init > 0:
            raise ValueError(f"init = {self.init}: must be positive")
        check_share(self.dropout)

    def build(self, start: Start) -> "BLSTM":
        blstm = BLSTM(self, len(start.vocab), start.rng)
        if self.word2vec and start.fresh:
            start_from_word2vec(blstm.embedding, start)
        return blstm


class InputLayer(Protocol):
    """What the LSTMs read at each position of sentences with their markers: rows, and the row of each position."""

    embedding: nn.Parameter  # [V+2, E]: e
    width: int  # I

    def rows(self, marked: Batch, rng: Generator | None) -> tuple[Tensor, Tensor]:
        """([D, I], [M]), differentiable."""
        ...

    def distinct_rows(self, marked: Batch) -> tuple[Tensor, Tensor]:
        """The same for scoring: no two rows of equal origin, no gradient."""
        ...

    def forget(self) -> None:
        """Drop what `distinct_rows` has kept for the next call."""
        ...


class Embedding(nn.Module):
    """e(x_t) itself."""

    def __init__(self, n_symbols: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.embedding = nn.Parameter(torch.empty(n_symbols, width))

    def rows(self, marked: Batch, rng: Generator | None) -> tuple[Tensor, Tensor]:
        words_U, which_M = torch.unique(marked.ids_N, return_inverse=True)
        return F.embedding(words_U, self.embedding), which_M

    def distinct_rows(self, marked: Batch) -> tuple[Tensor, Tensor]:
        return self.rows(marked, None)

    def forget(self) -> None:
        """Nothing is kept."""


class BLSTM(nn.Module):
    """phi(x) of a packed batch. See the equation at the head of this file."""

    def __init__(
        self, config: BLSTMConfig, n_words: int, rng: Generator | None = None, inputs: InputLayer | None = None
    ) -> None:
        super().__init__()
        self.config = config
        self.start = n_words  # the markers' numbers
        self.end = n_words + 1
        self.inputs = inputs or Embedding(n_words + 2, config.embedding)
        self.forward_stack = Stack(self.inputs.width, config)
        self.backward_stack = Stack(self.inputs.width, config)
        self.bias = nn.Parameter(torch.zeros(n_words))
        for name, parameter in self.named_parameters():
            if name != "bias":
                nn.init.uniform_(parameter, -config.init, config.init, generator=rng)

    @property
    def embedding(self) -> nn.Parameter:
        """[V+2, E] e; the last two rows are the markers'."""
        return self.inputs.embedding

    def forward(self, batch: Batch, rng: Generator | None = None) -> Tensor:
        """phi_B."""
        return batch.sum_words(self.contributions(batch, rng))

    def contributions(self, batch: Batch, rng: Generator | None = None) -> Tensor:
        """[N] what each word adds to phi; the product with a marker counts for the word beside it."""
        if is_long(batch) and not torch.is_grad_enabled():
            return self._read_long(batch)
        marked = with_markers(batch, self.start, self.end)
        rows_DI, row_M = self.inputs.rows(marked, rng)
        return self._terms(batch, marked, rows_DI, [packed(walk, row_M) for walk in walks(batch, marked)], rng)

    @torch.no_grad()
    def score(self, batch: Batch) -> Tensor:
        """phi_B without gradient: each distinct prefix is read once forward, each distinct suffix once backward."""
        if is_long(batch):
            return batch.sum_words(self._read_long(batch))
        marked = with_markers(batch, self.start, self.end)
        rows_DI, row_M = self.inputs.distinct_rows(marked)
        readings = [shared(walk, row_M, len(rows_DI)) for walk in walks(batch, marked)]
        return batch.sum_words(self._terms(batch, marked, rows_DI, readings, None))

    def _read_long(self, batch: Batch) -> Tensor:
        """`contributions` of one long sentence, read some words at a time: no more than those are in memory."""
        marked = with_markers(batch, self.start, self.end)
        rows_DI, row_M = self.inputs.distinct_rows(marked)
        total_N = self.bias.index_select(0, batch.ids_N.long())
        for stack, walk in zip((self.forward_stack, self.backward_stack), walks(batch, marked), strict=True):
            state = stack.zero_state()
            columns = (walk.place_R, walk.target_R, walk.word_R)
            for place, target, word in zip(*(column_R.split(SCORING_WORDS) for column_R in columns), strict=True):
                h_TE = stack.read_on(F.embedding(row_M[place], rows_DI), state)
                total_N.index_add_(0, word, (h_TE * F.embedding(marked.ids_N[target], self.embedding)).sum(1))
        return total_N

    def predictions(self, batch: Batch, rng: Generator | None = None) -> list[tuple[Tensor, Tensor]]:
        """For each direction [R, E] its states and [R] the word or marker that each is multiplied with, differentiable."""
        marked = with_markers(batch, self.start, self.end)
        rows_DI, row_M = self.inputs.rows(marked, rng)
        readings = [packed(walk, row_M) for walk in walks(batch, marked)]
        stacks = (self.forward_stack, self.backward_stack)
        return [(stack(rows_DI, r, rng), marked.ids_N[r.target_R]) for stack, r in zip(stacks, readings, strict=True)]

    def forget(self) -> None:
        self.inputs.forget()

    def _terms(self, batch: Batch, marked: Batch, rows_DI: Tensor, readings: "list[Reading]", rng: Generator | None) -> Tensor:
        words_U, which_M = torch.unique(marked.ids_N, return_inverse=True)
        e_UE = F.embedding(words_U, self.embedding)
        total_N = self.bias.index_select(0, batch.ids_N.long())
        for stack, reading in zip((self.forward_stack, self.backward_stack), readings, strict=True):
            h_PE = stack(rows_DI, reading, rng)
            h_RE = h_PE if reading.state_R is None else h_PE[reading.state_R]
            term_R = (h_RE * F.embedding(which_M[reading.target_R], e_UE)).sum(1)
            total_N = total_N.index_add(0, reading.word_R, term_R)
        return total_N


class Stack(nn.Module):
    """The layers of one direction, and the map to the embedding's size if that differs from the units."""

    train_in_bf16 = False  # the products of the layers, in a potential that is not asked to `score`

    def __init__(self, width: int, config: BLSTMConfig) -> None:
        super().__init__()
        H = config.units
        self.dropout = config.dropout
        self.input = nn.ParameterList(torch.empty(4 * H, I) for I in [width] + [H] * (config.layers - 1))  # noqa: E741
        self.recurrent = nn.ParameterList(torch.empty(4 * H, H) for _ in range(config.layers))
        self.gate_bias = nn.ParameterList(torch.empty(4 * H) for _ in range(config.layers))
        self.output = None if config.embedding == H else nn.Parameter(torch.empty(config.embedding, H))

    def forward(self, rows_DI: Tensor, reading: "Reading", rng: Generator | None) -> Tensor:
        """[P, E] the top layer after each state's input, mapped to the embedding's size."""
        dtype = torch.bfloat16 if self.train_in_bf16 else rows_DI.dtype
        x = dropout(rows_DI, self.dropout, rng)
        for k, (w_input, w_recurrent, bias) in enumerate(zip(self.input, self.recurrent, self.gate_bias, strict=True)):
            gates = linear(*(factor.to(dtype) for factor in (x, w_input, bias)))
            if k == 0:
                gates = F.embedding(reading.row_P, gates)  # W x + b once for each distinct input
            if self.train_in_bf16:
                assert reading.parent_P is None  # a tree is for scoring
                zero_SH = w_recurrent.new_zeros(reading.sizes[0], w_recurrent.shape[1])
                x, _ = read_fast(gates, w_recurrent, reading.sizes, zero_SH, zero_SH)
            elif reading.parent_P is None:
                x = read_packed(gates, w_recurrent, reading.sizes)
            else:
                x = read_tree(gates, w_recurrent, reading.sizes, reading.parent_P)
            x = dropout(x, self.dropout, rng)
        return x if self.output is None else linear(x, self.output)

    def zero_state(self) -> list[tuple[Tensor, Tensor]]:
        """(h, c) of each layer."""
        zero_H = self.gate_bias[0].new_zeros(self.recurrent[0].shape[1])
        return [(zero_H, zero_H)] * len(self.recurrent)

    def read_on(self, x_TI: Tensor, state: list[tuple[Tensor, Tensor]]) -> Tensor:
        """[T, E] the same for the next words of one text, from the state of each layer, which becomes that after the last."""
        for k, (w_input, w_recurrent, bias) in enumerate(zip(self.input, self.recurrent, self.gate_bias, strict=True)):
            x_TI, c_H = read_on(linear(x_TI, w_input, bias), w_recurrent, *state[k])
            state[k] = (x_TI[-1], c_H)
        return x_TI if self.output is None else linear(x_TI, self.output)


def with_markers(batch: Batch, start: int, end: int) -> Batch:
    """The sentences with a start before and an end after their words."""
    lengths_B = batch.lengths_B.long() + 2
    ids_M = torch.full((batch.n_words + 2 * len(batch),), start, device=batch.device)
    ids_M[torch.arange(batch.n_words, device=batch.device) + 2 * batch.sentence_N + 1] = batch.ids_N.long()
    ids_M[lengths_B.cumsum(0) - 1] = end
    return Batch(ids_M, lengths_B)


@dataclass(frozen=True, eq=False)
class Walk:
    """The R states of one direction, sentence after sentence in the order of reading."""

    place_R: Tensor  # the place of the marked batch that is read
    target_R: Tensor  # the place after it in the order of reading, whose embedding the state is multiplied with
    word_R: Tensor  # the word of the batch which that product counts for
    lengths_B: Tensor  # l + 1 states a sentence


def walks(batch: Batch, marked: Batch) -> Iterator[Walk]:
    """Forward, then backward."""
    states = Batch(batch.ids_N.new_empty(batch.n_words + len(batch)), batch.lengths_B.long() + 1)
    t_R, left_R = states.position_N, states.remaining_N  # 0..l and l..0
    first_R, word_R = marked.starts_B[states.sentence_N], batch.starts_B[states.sentence_N]
    last_R = batch.lengths_B[states.sentence_N] - 1
    yield Walk(first_R + t_R, first_R + t_R + 1, word_R + torch.minimum(t_R, last_R), states.lengths_B)
    yield Walk(first_R + left_R + 1, first_R + left_R, word_R + (left_R - 1).clamp(min=0), states.lengths_B)


@dataclass(frozen=True, eq=False)
class Reading:
    """The states to compute, level by level as `read_packed` or `read_tree` wants them, and the products they enter."""

    row_P: Tensor  # the input
    sizes: list[int]
    parent_P: Tensor | None
    state_R: Tensor | None  # the state of each product; None: they are in one order
    target_R: Tensor
    word_R: Tensor


def packed(walk: Walk, row_M: Tensor) -> Reading:
    """Every state, those of one time step together, the longest sentence first."""
    states = Batch(row_M[walk.place_R], walk.lengths_B)
    B = len(states)
    rank_B = torch.empty_like(walk.lengths_B)
    rank_B[torch.argsort(walk.lengths_B, descending=True, stable=True)] = torch.arange(B, device=rank_B.device)
    order_R = torch.argsort(states.position_N * B + rank_B[states.sentence_N])
    sizes = torch.bincount(states.position_N).tolist()
    return Reading(states.ids_N[order_R], sizes, None, None, walk.target_R[order_R], walk.word_R[order_R])


def shared(walk: Walk, row_M: Tensor, n_rows: int) -> Reading:
    """Every distinct prefix (in the order of reading) once, if there are far fewer than states."""
    tree = prefix_tree(Batch(row_M[walk.place_R], walk.lengths_B), n_rows)
    if len(tree.parent_P) > SHARED * len(walk.place_R):
        return packed(walk, row_M)
    parent_P = tree.parent_P[1:] - 1  # without the root, the empty prefix
    return Reading(tree.word_P[1:], tree.sizes[1:], parent_P, tree.prefix_N - 1, walk.target_R, walk.word_R)
