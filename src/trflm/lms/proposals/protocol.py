"""The auxiliary distribution q(l, x; mu) = pi0_l prod_i q(x_i | x_<i), as the sampler uses it: g(u | x^h) on spans of words.

Shapes: C chains, M trials a chain, s words a span, H units. A trial's words are drawn where `given_CMs` is -1 and taken
from it elsewhere, so that one call both proposes and scores.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from trflm.text import Batch

DRAW = -1
RUN = 100  # symbols, whose sum is looked at first when one is drawn


@dataclass(frozen=True)
class Span:
    """Proposed words and their density."""

    words_CMs: Tensor  # entries beyond a span's length are 0
    log_q_CM: Tensor  # log g(u | words before), float64
    _states: Any
    _row_CM: Tensor  # the state after each trial

    def state_after(self, trial_C: Tensor) -> Any:
        """The state of each chain if it goes on with this trial."""
        row_C = self._row_CM.gather(1, trial_C[:, None]).squeeze(1)
        return self._states.select(row_C)


class Proposal(Protocol):
    """g(u | words before). A state is whatever the proposal remembers of the words before; it has `select(index)`."""

    def to_state(self) -> dict[str, Any]:
        """What a model file holds of it: see `lms.proposals.stored_proposal`."""
        ...

    def start(self, n: int) -> Any:
        """The state before the first word, for n sentences."""
        ...

    def after(self, prefix: Batch, length_C: Tensor) -> Any:
        """The state after these words, for sentences that will have `length_C` words in all."""
        ...

    def propose(self, rng: torch.Generator, state: Any, given_CMs: Tensor, span_C: Tensor, remaining_C: Tensor) -> Span:
        """The next `span_C` words of each chain, M times over; `remaining_C` words are still to come, the span included."""
        ...

    def log_q(self, batch: Batch) -> Tensor:
        """[B] sum_i log q(x_i | x_<i): the words of whole sentences, the length given. Differentiable in mu."""
        ...


def draw(log_prob_TK: Tensor, rng: torch.Generator) -> Tensor:
    """[T] one index from each row of log-probabilities."""
    return draw_at(log_prob_TK, torch.rand(len(log_prob_TK), generator=rng, dtype=torch.float64).to(log_prob_TK.device))


def draw_at(log_prob_TK: Tensor, level_T: Tensor) -> Tensor:
    """[T] by inversion: the first index at which the cumulative probability exceeds the level, in [0, 1)."""
    cdf_TK = log_prob_TK.double().exp().cumsum(1)
    level_T = level_T * cdf_TK[:, -1]
    return torch.searchsorted(cdf_TK, level_T[:, None], right=True).squeeze(1).clamp(max=cdf_TK.shape[1] - 1)


def draw_symbol(logits_SK: Tensor, rng: torch.Generator) -> Tensor:
    """[S] one symbol from each row, by inversion in two stages: a run of RUN symbols by their sums, then one of the run. The
    cumulative probabilities of all symbols would take as long as the product that gives the logits."""
    run_SRK = F.pad(logits_SK.softmax(1), (0, -logits_SK.shape[1] % RUN)).view(len(logits_SK), -1, RUN)
    cdf_SR = run_SRK.sum(2).double().cumsum(1)
    level_S1 = torch.rand((len(logits_SK), 1), generator=rng, dtype=torch.float64).to(cdf_SR.device) * cdf_SR[:, -1:]
    run_S1 = torch.searchsorted(cdf_SR, level_S1, right=True).clamp(max=cdf_SR.shape[1] - 1)
    low_S1, high_S1 = (F.pad(cdf_SR, (1, 0)).gather(1, edge_S1) for edge_S1 in (run_S1, run_S1 + 1))
    cdf_SK = run_SRK[torch.arange(len(run_S1), device=run_S1.device), run_S1.squeeze(1)].double().cumsum(1)
    within_S1 = torch.searchsorted(cdf_SK, (level_S1 - low_S1) / (high_S1 - low_S1) * cdf_SK[:, -1:], right=True)
    return (run_S1 * RUN + within_S1).squeeze(1).clamp(max=logits_SK.shape[1] - 1)


def draw_sentences_of(proposal: Proposal, lengths_C: Tensor, rng: torch.Generator) -> Batch:
    """Sentences of these lengths, their words from the proposal."""
    n, longest = len(lengths_C), int(lengths_C.max())
    given_C1L = torch.full((n, 1, longest), DRAW, device=lengths_C.device)
    words_CL = proposal.propose(rng, proposal.start(n), given_C1L, lengths_C, lengths_C).words_CMs[:, 0]
    inside_CL = torch.arange(longest, device=lengths_C.device) < lengths_C[:, None]
    return Batch(words_CL[inside_CL], lengths_C)
