"""Pull a proposal towards a field: the update of mu in JSA (eq:upmu) while theta rests.

    mu += Adam{(1/K_B) sum_B dlog q},     B persistent chains of the field, advanced by Markov moves that propose from q itself

A learner that only tells data from noise (NCE) leaves the field free where neither of them is, and its mass may lie there:
80 nats a sentence were seen. Estimates that start from a proposal which never goes there are right on average and yet low
always. As q follows the chains it goes where they go.

Shapes: C chains.
"""

import copy
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from trflm.field.trf import TRF
from trflm.learning.loop import clip_gradient
from trflm.lms.proposals.lstm import LSTMProposal, LSTMProposalConfig
from trflm.lms.proposals.ngram import NGramProposal
from trflm.lms.proposals.protocol import Proposal, draw_sentences_of
from trflm.lms.softmax import ClassSoftmax, equal_classes
from trflm.lms.unigram import Unigram
from trflm.ranges import Amount, Count, Positive, check_fields
from trflm.sampling.chains import Chains
from trflm.sampling.draw import FixedLength
from trflm.sampling.gibbs import block_gibbs
from trflm.text import Batch


@dataclass(frozen=True)
class PullConfig:
    steps: Amount = 300  # at most; a step is one sweep of the chains and `updates` of q
    chains: Count = 64
    updates: Count = 2
    block: Count = 3
    trials: Count = 8
    lr: Positive = 2e-3
    clip: Positive = 5.0

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class PullInfo:
    steps: int
    accepted: float  # share of the blocks tried in the last sweep
    score: tuple[float, float]  # the mean of phi - log q over the chains, after the first step and after the last


def pull(
    rng: torch.Generator, trf: TRF, proposal: Proposal, lengths_B: Tensor, config: PullConfig, seconds: float
) -> tuple[Proposal, PullInfo | None]:
    """A pulled copy, for sentences of lengths like these. An n-gram model has nothing to learn by and is returned as it is."""
    pulled = able_to_learn(rng, proposal)
    if pulled is None or not config.steps:
        return proposal, None
    started, target = time.monotonic(), FixedLength(trf)
    lengths_C = lengths_B[torch.randint(len(lengths_B), (config.chains,), generator=rng)]
    chains = Chains.at(draw_sentences_of(pulled, lengths_C, rng), target)
    adam, scores, accepted, step = torch.optim.Adam(pulled.parameters(), lr=config.lr), [], 0.0, 0
    while step < config.steps and (step == 0 or time.monotonic() - started < seconds):
        step += 1
        chains, info = block_gibbs(rng, chains, target, pulled, config.block, config.trials)
        for _ in range(config.updates):
            adam.zero_grad()
            (-pulled.log_q(chains.batch).sum() / chains.batch.n_words).backward()
            clip_gradient(list(pulled.parameters()), config.clip)
            adam.step()
        with torch.no_grad():
            scores.append(float((chains.log_density(target) - pulled.log_q(chains.batch)).mean()))
        accepted = info.acceptance
    return pulled, PullInfo(step, accepted, (scores[0], scores[-1]))


def able_to_learn(rng: torch.Generator, proposal: Proposal) -> LSTMProposal | None:
    """A copy of an LSTM; for a unigram model an LSTM that starts at its frequencies; None for others."""
    match proposal:
        case LSTMProposal():
            return copy.deepcopy(proposal)
        case Unigram():
            return from_unigram(rng, proposal.log_word_V)
        case NGramProposal() if proposal.ngram.tables.n == 1:
            words_V = torch.arange(proposal.ngram.tables.n_words)
            return from_unigram(rng, proposal.log_q(Batch(words_V, torch.ones_like(words_V))))
        case _:
            return None


def from_unigram(rng: torch.Generator, log_word_V: Tensor) -> LSTMProposal:
    """An LSTM that at first gives every word about its frequency, whatever came before."""
    n_words = len(log_word_V)
    config = LSTMProposalConfig(classes=max(round(n_words**0.5), 1))
    class_V = equal_classes(log_word_V.exp().cpu(), config.classes)
    proposal = LSTMProposal(config, n_words, class_V, rng)
    output = proposal.output
    assert isinstance(output, ClassSoftmax)
    with torch.no_grad():
        log_class_K = torch.stack([torch.logsumexp(log_word_V[class_V == c], 0) for c in range(len(output.sizes))])
        output.bias.copy_(log_word_V[output.word_V])
        output.class_bias.copy_(log_class_K)
    return proposal
