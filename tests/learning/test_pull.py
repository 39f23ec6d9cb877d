"""A proposal that is pulled towards a field comes nearer to it, whatever it was; the one that was given stays as it is."""

import math

import pytest
import torch
from enumerable import LONGEST, V, field, lstm_proposal, reference, rough_blstm
from harness import check_proposal, random_batch, rng, tiny_vocab

from trflm.learning.pull import PullConfig, from_unigram, pull
from trflm.lms.ngram import KneserNeyConfig, kneser_ney
from trflm.lms.proposals.ngram import NGramProposal
from trflm.lms.unigram import Unigram

pytestmark = pytest.mark.filterwarnings("ignore:the .-grams of this text")
CONFIG = PullConfig(steps=40, chains=200, block=2, trials=3, lr=1e-2)


def divergence(proposal) -> float:
    """KL(p_l || q) at the longest length, exactly."""
    _, exact = field(rough_blstm())
    at = (exact.batch.lengths_B == LONGEST).nonzero().squeeze(1)
    log_p = exact.phi_S[at].log_softmax(0)
    return float((log_p.exp() * (log_p - proposal.log_q(exact.batch.select(at)).detach())).sum())


def unigram() -> Unigram:
    trf, _ = field(rough_blstm())
    return Unigram(tiny_vocab(V), trf.pi, torch.tensor([0.6, 0.3, 0.1]).log())


@pytest.mark.parametrize(
    "given", [lstm_proposal, unigram, lambda: NGramProposal(first_order())], ids=["lstm", "unigram", "1-gram"]
)
def test_comes_nearer(given):
    trf, _ = field(rough_blstm())
    before, lengths = given(), torch.tensor([3, LONGEST])
    was = divergence(before)
    pulled, info = pull(rng(1), trf, before, lengths, CONFIG, math.inf)
    assert info is not None
    assert info.steps == CONFIG.steps
    assert 0 < info.accepted < 1
    assert divergence(pulled) < 0.6 * was
    assert divergence(before) == was


def first_order():
    return kneser_ney(random_batch(V, [3, 4] * 20), tiny_vocab(V), KneserNeyConfig(order=1))


def test_time_limits_it_and_other_proposals_stay():
    trf, _ = field(rough_blstm())
    _, info = pull(rng(1), trf, lstm_proposal(), torch.tensor([3]), CONFIG, 0.0)
    assert info is not None
    assert info.steps == 1
    longer = NGramProposal(reference())
    assert pull(rng(1), trf, longer, torch.tensor([3]), CONFIG, math.inf) == (longer, None)


def test_starts_at_the_frequencies():
    log_word_V = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()
    proposal = from_unigram(rng(1), log_word_V).double()
    check_proposal(proposal, V, 3)
    one = unigram().draw(1, rng(1), torch.tensor([1]))
    assert float(proposal.log_q(one).detach()) == pytest.approx(float(log_word_V[one.ids_N].sum()), abs=0.6)
