"""The proposal of the paper: an LSTM with one layer of 250 units, q(x_i | x_<i), with a choice of output layers.

It may also see how many words are still to come: the length is fixed in a move, and for a jump it is the greater of the
two lengths, so g stays one well-defined distribution and every kernel stays exact.

Shapes: C chains, M trials, s words a span, T = C*M trials in all, A of them still going, R distinct prefixes, P their
parents, H units.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trflm.kinds import PathName, Start
from trflm.lms.proposals.protocol import Span
from trflm.lms.softmax import ClassSoftmax, FullSoftmax, equal_classes
from trflm.ranges import Amount, Positive, Size
from trflm.recurrent.recurrence import Recurrence, next_states
from trflm.speed.distinct import distinct
from trflm.speed.products import linear, multiply
from trflm.speed.word_cache import WordCache
from trflm.text import Batch
from trflm.text.classes import cached_exchange, read_classes

FARTHEST = 31  # more words to come than this look alike


@dataclass(frozen=True)
class LSTMProposalConfig:
    """[proposal] kind = "lstm": the auxiliary distribution of AugSA + JSA, and the noise of dynamic NCE.

    The classes of its output are of equal size by frequency (the fastest), or by bigram exchange, or from a file.
    """

    units: Size = 250  # of the LSTM
    classes: Amount = 100  # of the class-factored output; 0: a full softmax
    sees_remaining: bool = True  # whether the LSTM is told how many words are still to come
    init: Positive = 0.1  # parameters start uniform in +-init
    kind: Literal["lstm"] = "lstm"
    exchange: bool = False  # classes of words that behave alike, by bigram exchange on the training text
    classes_file: PathName = ""  # lines `word class`; then `classes` plays no part

    def __post_init__(self) -> None:
        if self.units < 1 or self.classes < 0 or not self.init > 0:
            raise ValueError("units must be at least 1, classes must not be negative, init must be positive")
        if self.exchange and (self.classes_file or not self.classes):
            raise ValueError("exchange makes `classes` classes, at least 1, and no classes_file; leave out one of them")

    def build(self, start: Start) -> "LSTMProposal":
        return LSTMProposal(self, len(start.vocab), self.word_classes(start), start.rng)

    def stored(self, n_words: int, state: Mapping[str, Any]) -> "LSTMProposal":
        """The proposal with these parameters, and the classes that are among them."""
        proposal = LSTMProposal(self, n_words, state.get("output.class_V"))
        proposal.load_state_dict(state)
        return proposal

    def word_classes(self, start: Start) -> Tensor | None:
        """[V] the classes of the output, numbered without gaps; None for a full softmax."""
        text, n_words = start.text, len(start.vocab)
        assert text is not None
        if self.classes_file:
            class_V = read_classes(self.classes_file, start.vocab)
        elif not self.classes:
            return None
        elif self.exchange:
            class_V = cached_exchange(text, n_words, self.classes)
        else:
            class_V = equal_classes(text.word_counts(n_words), self.classes)
        return torch.unique(class_V, return_inverse=True)[1]


@dataclass(frozen=True)
class LSTMState:
    """What comes next depends on these alone: h and c after all words but the last, which several states may share, and the
    last word."""

    h_PH: Tensor
    c_PH: Tensor
    parent_R: Tensor  # the row of h and c of each state
    last_R: Tensor

    def select(self, index: Tensor) -> "LSTMState":
        """The states of these rows (`index_select`: indexing rows by [] takes four times as long)."""
        parent = self.parent_R[index]
        return LSTMState.apart(self.h_PH.index_select(0, parent), self.c_PH.index_select(0, parent), self.last_R[index])

    @classmethod
    def apart(cls, h_RH: Tensor, c_RH: Tensor, last_R: Tensor) -> "LSTMState":
        """States that share nothing."""
        return cls(h_RH, c_RH, torch.arange(len(last_R), device=last_R.device), last_R)


class LSTMProposal(nn.Module):
    def __init__(
        self, config: LSTMProposalConfig, n_words: int, class_V: Tensor | None = None, rng: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.config, self.n_words, H = config, n_words, config.units
        self.embedding = nn.Parameter(torch.empty(n_words + 1, H))  # the last is the beginning of a sentence
        self.remaining = nn.Parameter(torch.empty(FARTHEST + 1, H)) if config.sees_remaining else None
        self.lstm = nn.LSTM(H, H, batch_first=True)
        self.output = FullSoftmax(H, n_words) if class_V is None else ClassSoftmax(H, class_V)
        self.input_gates = WordCache()
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -config.init, config.init, generator=rng)

    def to_state(self) -> dict[str, Any]:
        return {"lstm": self.state_dict()}

    def start(self, n: int) -> LSTMState:
        zeros = self.embedding.new_zeros(n, self.config.units)
        return LSTMState.apart(zeros, zeros, torch.full((n,), self.n_words, device=zeros.device))

    def after(self, prefix: Batch, length_C: Tensor) -> LSTMState:
        with torch.no_grad():
            h_NH, c_NH = self._run(prefix, length_C)
        ends_C = prefix.starts_B + prefix.lengths_B - 1
        return LSTMState.apart(h_NH[ends_C], c_NH[ends_C], prefix.ids_N[ends_C])

    def log_q(self, batch: Batch) -> Tensor:
        return batch.sum_words(self.word_log_q(batch).double())

    def word_log_q(self, batch: Batch) -> Tensor:
        """[N] log q(x_i | x_<i), differentiable."""
        h_NH, _ = self._run(batch, batch.lengths_B)
        return self.output.log_prob(h_NH, batch.ids_N)

    @torch.no_grad()
    def propose(self, rng: torch.Generator, state: LSTMState, given_CMs: Tensor, span_C: Tensor, remaining_C: Tensor) -> Span:
        """Each distinct prefix is computed once: the M first words of a chain come from one distribution."""
        C, M, s = given_CMs.shape
        span_T, given_Ts = span_C.repeat_interleave(M), given_CMs.reshape(C * M, s)
        words_Ts = torch.zeros_like(given_Ts)
        log_q_T = torch.zeros(C * M, dtype=torch.float64, device=given_CMs.device)
        active_A = (span_T > 0).nonzero().squeeze(1)  # the trials that have a word here
        row_A, remaining_P = active_A // M, remaining_C
        remaining_gates = None if self.remaining is None else F.linear(self.remaining, self.lstm.all_weights[0][0])
        longest = int(span_C.max())
        for t in range(longest):
            h_RH, c_RH = self._step(state, remaining_P, remaining_gates)
            word_A, log_prob_A = self.output.choose(h_RH, row_A, given_Ts[active_A, t], rng)
            words_Ts[active_A, t] = word_A
            log_q_T[active_A] += log_prob_A.double()
            if t + 1 < longest:
                going = (span_T[active_A] > t + 1).nonzero().squeeze(1)
                active_A, row_A, word_A = active_A[going], row_A[going], word_A[going]
            next_A, place_R = distinct([row_A.int(), word_A.int()], self.n_words)
            parent_R = row_A[place_R]
            row_A, remaining_P = next_A.long(), remaining_P[state.parent_R] - 1
            state = LSTMState(h_RH, c_RH, parent_R, word_A[place_R])
        row_T = torch.zeros_like(span_T).index_copy_(0, active_A, row_A)
        return Span(words_Ts.view(C, M, s), log_q_T.view(C, M), state, row_T.view(C, M))

    def _input(self, last: Tensor, remaining: Tensor) -> Tensor:
        embedded = F.embedding(last, self.embedding)
        if self.remaining is None:
            return embedded
        return embedded + F.embedding(remaining.clamp(max=FARTHEST), self.remaining)

    def _inputs(self, batch: Batch, length_B: Tensor) -> Tensor:
        """[N, H] what the LSTM reads before each word: the word before it, or the beginning."""
        last_N = torch.where(batch.position_N == 0, self.n_words, batch.ids_N.roll(1))
        return self._input(last_N, length_B[batch.sentence_N] - batch.position_N)

    def _step(self, state: LSTMState, remaining_P: Tensor, remaining_gates: Tensor | None) -> tuple[Tensor, Tensor]:
        """[R, H] h and c after one more word. What its input adds to the gates is kept for each word, W_ih e(word) + b; the
        rest of them is computed once for all states that share a parent."""
        w_ih, w_hh, b_ih, b_hh = self.lstm.all_weights[0]

        def compute(words: Tensor, out: Tensor) -> None:
            multiply(self.embedding[words], w_ih.t(), out.copy_(b_ih + b_hh), beta=1)

        parameters = (self.embedding, w_ih, b_ih, b_hh)
        rows, slot_R = self.input_gates.find(state.last_R, self.n_words + 1, len(w_ih), parameters, compute)
        product_P4H = linear(state.h_PH, w_hh)
        if remaining_gates is not None:
            product_P4H += remaining_gates.index_select(0, remaining_P.clamp(max=FARTHEST))
        return next_states(product_P4H, state.parent_R, rows, slot_R, state.c_PH)

    def _run(self, batch: Batch, length_B: Tensor) -> tuple[Tensor, Tensor]:
        """[N, H] h and c: at position i the LSTM has seen the beginning and x_1..x_{i-1}. Only h has a gradient."""
        w_ih, w_hh, b_ih, b_hh = self.lstm.all_weights[0]
        input_NH = self._inputs(batch, length_B)
        # By position, and the longest sentences first.
        longest_first_B = torch.argsort(torch.argsort(batch.lengths_B, descending=True, stable=True))
        order_N = torch.argsort(batch.position_N * len(batch) + longest_first_B[batch.sentence_N])
        gates_N4H = linear(input_NH.index_select(0, order_N), w_ih, b_ih + b_hh)
        h_NH, c_NH = Recurrence.apply(gates_N4H, w_hh, torch.bincount(batch.position_N).tolist())
        back_N = torch.argsort(order_N)
        return h_NH.index_select(0, back_N), c_NH.index_select(0, back_N)
