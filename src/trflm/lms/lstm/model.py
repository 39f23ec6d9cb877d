"""The LSTM language models of Zaremba et al. (2014): 2x200, 2x650, 2x1500 units; dropout everywhere but between time steps.

There is no start symbol: a sentence begins after the end of the one before, as in the concatenated text of training. `log_prob`
starts every sentence from the zero state and the end symbol (the paper's "reset", section 5.1), so that a score does not depend
on the order of sentences; the other two strategies are in `strategies`.

Shapes: B sentences, N words in all, V words, S streams of text side by side, T steps of a stream, P prefixes, E edges (a prefix
and a symbol after it), H hidden units, I inputs of a layer, K layers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import torch
from torch import Generator, Tensor, nn

from trflm.errors import InputError
from trflm.kinds import Start
from trflm.language_model import Directed, Explanation, LanguageModel, check_ends
from trflm.lms.lstm.draw_bf16 import draw_columns
from trflm.lms.lstm.output_bf16 import Output16
from trflm.lms.lstm.strategies import Preserve, Shuffle
from trflm.lms.proposals.protocol import draw_symbol
from trflm.ranges import Layers, Positive, Share, Size
from trflm.recurrent.prefixes import ROOT, PrefixTree, prefix_tree
from trflm.recurrent.recurrence import read_on, read_tree
from trflm.seeds import generator
from trflm.speed.bf16 import has_bf16
from trflm.speed.products import linear
from trflm.text import Batch, Vocab, pack
from trflm.text.batch import SCORING_WORDS, in_parts, is_long

STREAMS = 20  # in which a text is read in order
DRAWN_AT_ONCE = 500  # sentences, whose probabilities of every word exist at a time
PREFIXES_AT_ONCE = 128  # whose logits exist at a time: enough for a fast product, few enough to stay in the cache


@dataclass(frozen=True)
class LSTMConfig:
    """[model] kind = "lstm": a left-to-right LSTM. Defaults: the small model, 2x200."""

    embedding: Size = 200  # numbers that stand for a word
    hidden: Size = 200  # units of a layer
    layers: Layers = 2  # one above the other
    dropout: Share = 0.0  # on inputs, between layers and on outputs
    init: Positive = 0.1  # all parameters start uniform in +-init
    tied: bool = False  # one matrix for the embedding and the output layer
    kind: Literal["lstm"] = "lstm"
    variational: bool = False  # dropout leaves out the same units at all steps of a window

    def __post_init__(self) -> None:
        if min(self.embedding, self.hidden, self.layers) < 1:
            raise InputError(f"the sizes of an LSTM are at least 1: {self}")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout is a probability below 1, not {self.dropout}")
        if self.tied and self.embedding != self.hidden:
            raise InputError(f"tied matrices need embedding = hidden, not {self.embedding} and {self.hidden}")

    def build(self, start: Start) -> "LSTM":
        return LSTM(start.vocab, self, start.rng or generator(0, "init"))

    def stored(self, vocab: Vocab, state: Mapping[str, Any]) -> "LSTM":
        """The model that `LSTM.to_state` wrote."""
        lstm = self.build(Start(vocab))
        lstm.load_state_dict(state["lstm"])
        return lstm


SMALL = LSTMConfig()
MEDIUM = LSTMConfig(embedding=650, hidden=650, dropout=0.5, init=0.05)
LARGE = LSTMConfig(embedding=1500, hidden=1500, dropout=0.65, init=0.04)


class State(NamedTuple):
    """What the model remembers of the text so far."""

    h_KSH: Tensor
    c_KSH: Tensor


class LSTM(Directed, nn.Module):
    """A left-to-right model of words and the end symbol, number V."""

    score_in_bf16 = False  # the products of `explain`, `log_prob` and `draw`, but for sentences too long for a tree

    def __init__(self, vocab: Vocab, config: LSTMConfig, rng: Generator) -> None:
        super().__init__()
        self.vocab = vocab
        self.config = config
        self.end = len(vocab)
        self.embedding = nn.Embedding(len(vocab) + 1, config.embedding)
        sizes = [config.embedding] + [config.hidden] * (config.layers - 1)
        self.layers = nn.ModuleList(nn.LSTM(size, config.hidden) for size in sizes)
        self.output_weight = None if config.tied else nn.Parameter(torch.empty(len(vocab) + 1, config.hidden))
        self.output_bias = nn.Parameter(torch.empty(len(vocab) + 1))
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-config.init, config.init, generator=rng)

    def n_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    # Text as one stream

    def zero_state(self, n_streams: int) -> State:
        zero = self.output_bias.new_zeros(self.config.layers, n_streams, self.config.hidden)
        return State(zero, zero)

    def read(self, symbol_TS: Tensor, state: State, rng: Generator | None = None) -> tuple[Tensor, State]:
        """([T, S, H] the top layer after each symbol, the state after the last). Dropout if a generator is given."""
        x_TSI = self.dropout(self.embedding(symbol_TS), rng)
        h, c = [], []
        for k, layer in enumerate(self.layers):
            x_TSI, (h_1SH, c_1SH) = layer(x_TSI, (state.h_KSH[k : k + 1], state.c_KSH[k : k + 1]))
            x_TSI = self.dropout(x_TSI, rng)
            h.append(h_1SH)
            c.append(c_1SH)
        return x_TSI, State(torch.cat(h), torch.cat(c))

    def logits(self, h: Tensor) -> Tensor:
        """[..., H] -> [..., V + 1]."""
        return linear(h, self.output_matrix, self.output_bias)

    @property
    def output_matrix(self) -> Tensor:
        return self.embedding.weight if self.output_weight is None else self.output_weight

    def dropout(self, x: Tensor, rng: Generator | None) -> Tensor:
        """[T, S, I], some of it zero and the rest larger; as it is without a generator."""
        p = self.config.dropout
        if rng is None or p == 0:
            return x
        shape = (1, *x.shape[1:]) if self.config.variational else x.shape
        keep = torch.rand(shape, generator=rng, device=rng.device) >= p
        return x * keep.to(x.device) / (1 - p)

    # Sentences, each from the zero state

    def use_bf16(self, anyway: bool = False) -> bool:
        """Score with products in bf16 if this CPU has instructions for it, or `anyway`; says whether it does.

        On real lists log_prob of a 2x200 then differs by 0.12 at most (standard deviation 0.03); see docs/performance.md.
        """
        self.score_in_bf16 = anyway or has_bf16()
        return self.score_in_bf16

    @torch.no_grad()
    def explain(self, sentences: Batch | Sequence[str]) -> Explanation:
        batch = self.vocab.batch(sentences)
        parts = [self._explain_part(part) for part in in_parts(batch.to(self.output_bias.device))]
        word_N, end_B = (torch.cat(column).to(batch.device) for column in zip(*parts, strict=True))
        return Explanation(batch, word_N, end_B)

    def _explain_part(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """([N] log p of each word, [B] log p of each end)."""
        if is_long(batch):
            return self._explain_long(batch.ids_N.long())
        tree = prefix_tree(batch, len(self.vocab))
        h_PH = self._read_tree(tree)
        word_P, end_P = self.edge_log_probs(h_PH, tree.parent_P, tree.word_P)
        last_B = tree.prefix_N[batch.starts_B + batch.lengths_B - 1]
        return word_P[tree.prefix_N], end_P[last_B]

    def _explain_long(self, ids_N: Tensor) -> tuple[Tensor, Tensor]:
        """The same for one long sentence, read some words at a time: no more than those are in memory.

        What is kept from one time to the next has its place before the first, so that none of it comes to lie between the large
        tensors: malloc, which keeps what is freed (`speed/memory.py`), could not use their room again.
        """
        symbol = torch.cat([ids_N.new_tensor([self.end]), ids_N, ids_N.new_tensor([self.end])])
        state, log_prob = self.zero_state(1), self.output_bias.new_empty(len(symbol) - 1)
        h, c = list(state.h_KSH[:, 0].clone()), list(state.c_KSH[:, 0].clone())
        pieces = (x.split(SCORING_WORDS) for x in (symbol[:-1], symbol[1:], log_prob))
        for read, following, log_prob_T in zip(*pieces, strict=True):
            x = self.embedding(read)
            for k, layer in enumerate(self.layers):
                weights = Weights.of(layer)
                x, c_H = read_on(linear(x, weights.input, weights.bias), weights.recurrent, h[k], c[k])
                h[k].copy_(x[-1])
                c[k].copy_(c_H)
            log_prob_T.copy_(self.edge_log_probs(x, torch.arange(len(x), device=x.device), following)[0])
        return log_prob[:-1], log_prob[-1:]

    def draw_some(self, n: int, rng: Generator, length: int | None, burn_in: int) -> Batch:
        return self.draw(n, rng, length)

    def in_order(self, seed: int = 1) -> Mapping[str, LanguageModel]:
        preserve = Preserve(self, STREAMS)
        return {"preserve": preserve, "shuffle": Shuffle(preserve, seed)}

    def to_state(self) -> dict[str, Any]:
        return {"lstm": self.state_dict()}

    @torch.no_grad()
    def draw(self, n: int, rng: Generator, length: int | None = None) -> Batch:
        """Sentences word by word from p(x), given that there is a word at all; with `length`, as if none could end before."""
        at_once = DRAWN_AT_ONCE * 2 if self.score_in_bf16 else DRAWN_AT_ONCE  # numbers of half the size
        sizes = [min(at_once, n - done) for done in range(0, max(n, 1), at_once)]
        return pack([self._draw(size, rng, length) for size in sizes])

    def _draw(self, n: int, rng: Generator, length: int | None) -> Batch:
        in_bf16 = self.score_in_bf16 and Output16.applies(self.output_bias)
        columns = (draw_columns if in_bf16 else LSTM._draw_columns)(self, n, rng, length)
        symbol_BL = torch.stack(columns, 1) if columns else torch.empty((n, 0), dtype=torch.int64)
        is_word_BL = symbol_BL != self.end
        return Batch(symbol_BL[is_word_BL], is_word_BL.sum(1))

    def _draw_columns(self, n: int, rng: Generator, length: int | None) -> list[Tensor]:
        """[n] the symbols of each place, the end for sentences that are over."""
        symbol, state = torch.full((n,), self.end, device=self.output_bias.device), self.zero_state(n)
        going, columns = torch.arange(n, device=symbol.device), []
        while len(going) and (length is None or len(columns) < length):
            h_1SH, state = self.read(symbol[None], state)
            logits = self.logits(h_1SH[0])
            if not columns or length is not None:
                logits[:, self.end] = -torch.inf
            symbol = draw_symbol(logits, rng)
            columns.append(torch.full((n,), self.end, device=symbol.device).index_copy(0, going, symbol))
            if length is None:
                check_ends(len(columns))
            goes_on = (symbol != self.end).nonzero().squeeze(1)
            going, symbol = going[goes_on], symbol[goes_on]
            state = State(state.h_KSH[:, goes_on], state.c_KSH[:, goes_on])
        return columns

    @torch.no_grad()
    def log_not_empty(self) -> float:
        """log of the probability that a sentence has a word."""
        h_11H, _ = self.read(torch.full((1, 1), self.end, device=self.output_bias.device), self.zero_state(1))
        log_end = self.logits(h_11H[0, 0]).double().log_softmax(0)[self.end]
        return float(torch.log1p(-log_end.exp()))

    def edge_log_probs(self, h_PH: Tensor, from_E: Tensor, symbol_E: Tensor) -> tuple[Tensor, Tensor]:
        """([E] log p of a symbol after prefix `from_E`, which never falls; [P] log p of the end after every prefix).

        The logits of all symbols exist for one chunk of prefixes at a time.
        """
        if self.score_in_bf16 and Output16.applies(h_PH):
            output = Output16(self.output_matrix, self.output_bias)
            log_total_P, every = output.log_totals(h_PH), torch.arange(len(h_PH))
            word_E = output.logits(h_PH, from_E, symbol_E) - log_total_P[from_E]
            return word_E, output.logits(h_PH, every, torch.full_like(every, self.end)) - log_total_P
        log_prob_E, end_P = h_PH.new_empty(len(from_E)), h_PH.new_empty(len(h_PH))
        first_edges = torch.searchsorted(from_E, torch.arange(0, len(h_PH) + PREFIXES_AT_ONCE, PREFIXES_AT_ONCE).to(from_E))
        low, logits_of = 0, self._logits_in_bf16() if self.score_in_bf16 else self.logits
        for h, (first, last) in zip(h_PH.split(PREFIXES_AT_ONCE), pairwise(first_edges.tolist()), strict=True):
            logits = logits_of(h).float()
            log_total = logits.logsumexp(1)
            end_P[low : low + len(h)] = logits[:, self.end] - log_total
            row = from_E[first:last] - low
            log_prob_E[first:last] = logits[row, symbol_E[first:last]] - log_total[row]
            low += len(h)
        return log_prob_E, end_P

    def _logits_in_bf16(self) -> Callable[[Tensor], Tensor]:
        """`logits`, with the factors rounded."""
        weight_HV, bias_V = self.output_matrix.bfloat16().t(), self.output_bias
        return lambda h_PH: (h_PH.bfloat16() @ weight_HV).to(bias_V.dtype).add_(bias_V)

    def _read_tree(self, tree: PrefixTree) -> Tensor:
        """[P, H] the top layer after each prefix, all prefixes of one length in one step.

        Of the sums inside the gates, W x of the first layer depends on the word alone and W h on the parent alone: the one is
        computed once for each distinct word, the other once for each parent.
        """
        symbol_P = tree.word_P.clone()
        symbol_P[ROOT] = self.end
        symbol, which_P = torch.unique(symbol_P, return_inverse=True)
        x = self.embedding(symbol)
        dtype = torch.bfloat16 if self.score_in_bf16 else x.dtype
        for k, layer in enumerate(self.layers):
            weights = Weights.of(layer)
            gates = linear(*(factor.to(dtype) for factor in (x, weights.input, weights.bias))).to(x.dtype)
            x = read_tree(gates[which_P] if k == 0 else gates, weights.recurrent.to(dtype), tree.sizes, tree.parent_P)
        return x


class Weights(NamedTuple):
    """The matrices of one layer, gates in the order input, forget, cell, output."""

    input: Tensor
    recurrent: Tensor
    bias: Tensor

    @classmethod
    def of(cls, layer: nn.Module) -> "Weights":
        assert isinstance(layer, nn.LSTM)
        w_input, w_recurrent, b_input, b_recurrent = layer.all_weights[0]
        return cls(w_input, w_recurrent, b_input + b_recurrent)
