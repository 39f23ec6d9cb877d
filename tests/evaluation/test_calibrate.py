"""A calibrated field sums to pi_l over every length: exactly where sentences are enumerated, else to the precision asked."""

import math

import pytest
import torch
from enumerable import LONGEST, POTENTIALS, V, field, lstm_proposal

from trflm.evaluation.bracket import Bracket
from trflm.evaluation.calibrate import calibrate, zeta_from
from trflm.evaluation.effort import Effort
from trflm.field.snapshots import FieldModel
from trflm.sampling.draw import FieldSampler
from trflm.sampling.exact import all_sentences
from trflm.sampling.mixture import TransMSConfig
from trflm.sampling.smc import SMCConfig

pytestmark = pytest.mark.filterwarnings("ignore:the .-grams of this text")
EVERYTHING = all_sentences(V, LONGEST)


def sums(trf) -> torch.Tensor:
    """[m+1] the probability that the field gives to all sentences of a length."""
    return torch.zeros(LONGEST + 1, dtype=torch.float64).index_add(0, EVERYTHING.lengths_B, trf.log_prob(EVERYTHING).exp())


@pytest.mark.parametrize("enumerated", [True, False])
@pytest.mark.parametrize("name", ["blstm", "cnn on a reference"])
def test_sums_to_pi(name, enumerated, monkeypatch):
    trf, exact = field(POTENTIALS[name]())
    lm = FieldModel([trf], FieldSampler(lstm_proposal(), TransMSConfig()))
    if not enumerated:
        original = Bracket.__init__
        monkeypatch.setattr(Bracket, "__init__", lambda *a, **k: original(*a, **k, most_enumerated=0))
    assert float((sums(trf) / trf.pi)[1:].sub(1).abs().max()) > 0.02  # as it is, it does not
    found = calibrate(lm, SMCConfig(size=300), Effort(gap=0.01, minutes=math.inf, pull_share=0))
    assert found.gaps[0] <= 0.01
    trf.zeta.copy_(found.zetas[0])
    # A gap of 1 % of the perplexity is 6 % of a sentence's probability at five words.
    torch.testing.assert_close(sums(trf), trf.pi, rtol=1e-9 if enumerated else 0.06, atol=1e-12)
    assert (exact.zeta - found.zetas[0]).abs().max() < (1e-9 if enumerated else 0.06)


def test_between_and_beyond():
    zeta = zeta_from({1: 2.0, 2: 5.0, 4: 11.0}, 6)
    assert zeta.tolist() == [0, 0, 3, 6, 9, 12, 15]
