"""An n-gram model as the sampler's proposal: g(u | words before) of `NGram`, words only, no sentence ever ends.

Shapes: C chains, M trials, s words a span, T = C*M trials, K = n - 1 words of context, n the order, R states.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trflm.lms.ngram.model import NGram
from trflm.lms.proposals.protocol import DRAW, Span
from trflm.text import Batch


@dataclass(frozen=True, eq=False)
class NGramState:
    """The rows of the last words in the tables, shortest context first."""

    context_KR: np.ndarray

    def select(self, index: Tensor) -> "NGramState":
        return NGramState(self.context_KR[:, index.cpu().numpy()])


class NGramProposal:
    """See `lms.proposals.protocol.Proposal`. How many words remain plays no part."""

    def __init__(self, ngram: NGram) -> None:
        self.ngram = ngram

    def to_state(self) -> dict[str, Any]:
        """Nothing of its own: the n-gram model is the reference that is stored beside the field."""
        return {}

    def start(self, n: int) -> NGramState:
        return NGramState(self.ngram.tables.start_context(n))

    def after(self, prefix: Batch, length_C: Tensor) -> NGramState:
        return NGramState(self.ngram.context_after(prefix, prefix.lengths_B))

    def propose(self, rng: torch.Generator, state: NGramState, given_CMs: Tensor, span_C: Tensor, remaining_C: Tensor) -> Span:
        C, M, s = given_CMs.shape
        given_Ts = given_CMs.reshape(C * M, s).cpu().numpy()
        span_T = np.repeat(span_C.cpu().numpy(), M)
        context_KT = np.repeat(state.context_KR, M, axis=1)
        words_Ts, log_q_T = np.zeros_like(given_Ts), np.zeros(C * M)
        for t in range(s):
            going = span_T > t
            for given in (False, True):
                at = np.flatnonzero(going & ((given_Ts[:, t] != DRAW) == given))
                if not len(at):
                    continue
                if given:
                    word, row, log_q = self.ngram.extend(context_KT[:, at], given_Ts[at, t])
                else:
                    word, row, log_q = self.ngram.draw_words(context_KT[:, at], rng)
                words_Ts[at, t], context_KT[:, at] = word, row[:-1]
                log_q_T[at] += log_q
        device = given_CMs.device
        row_CM = torch.arange(C * M, device=device).view(C, M)
        words_CMs = torch.from_numpy(words_Ts).to(device).view(C, M, s)
        return Span(words_CMs, torch.from_numpy(log_q_T).to(device).view(C, M), NGramState(context_KT), row_CM)

    def log_q(self, batch: Batch) -> Tensor:
        return self.ngram.log_span(batch, torch.zeros_like(batch.lengths_B), batch.lengths_B).double()
