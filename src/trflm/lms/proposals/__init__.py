"""Proposals g(u | words before): what the sampler draws from, and what a model file holds of them."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from trflm.lms.ngram import NGram
from trflm.lms.proposals.lstm import LSTMProposalConfig
from trflm.lms.proposals.ngram import NGramProposal
from trflm.lms.proposals.protocol import Proposal
from trflm.lms.unigram import Unigram
from trflm.text import Vocab


def stored_proposal(
    state: Mapping[str, Any], config: LSTMProposalConfig, vocab: Vocab, pi: Tensor, reference: NGram | None
) -> Proposal:
    """The proposal that `to_state` wrote. A field without one of its own is sampled by the reference it tilts."""
    if "unigram" not in state:
        return config.stored(len(vocab), state["lstm"])
    return NGramProposal(reference) if reference else Unigram(vocab, pi, state["unigram"])
