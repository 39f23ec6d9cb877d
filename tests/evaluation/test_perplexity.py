import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from enumerable import POTENTIALS, Bigrams, V, field, lstm_proposal
from harness import random_batch, rng, tiny_vocab

from trflm.evaluation import bracket, narrow
from trflm.evaluation.bracket import Bracket
from trflm.evaluation.effort import Effort
from trflm.evaluation.perplexity import Perplexity, length_log_probs, perplexity
from trflm.field.snapshots import FieldModel
from trflm.field.trf import TRF
from trflm.lms.lstm import LSTM, LSTMConfig
from trflm.lms.ngram import KneserNeyConfig, kneser_ney
from trflm.lms.proposals.ngram import NGramProposal
from trflm.sampling.ais import AIS, AISConfig
from trflm.sampling.draw import FieldSampler
from trflm.sampling.mixture import TransMSConfig
from trflm.sampling.smc import SMCConfig
from trflm.text import UNK, Vocab
from trflm.text.lengths import PI_FLOOR, empirical_pi

TEXT = random_batch(V, [1, 3, 3, 5, 5, 5, 5, 4, 2] * 4)
NO_LIMIT = {"minutes": math.inf, "burn_in": 5, "pull_share": 0.0}


def model(*names: str) -> FieldModel:
    return FieldModel([field(POTENTIALS[name]())[0] for name in names], FieldSampler(lstm_proposal(), TransMSConfig()))


def truth(potential, pi) -> float:
    log_Z = field(potential)[1].log_Z
    log_prob = float((pi.log()[TEXT.lengths_B] + potential(TEXT).detach() - log_Z[TEXT.lengths_B]).sum())
    return math.exp(-log_prob / (TEXT.n_words + len(TEXT)))


def test_a_uniform_model_has_as_many_choices_as_symbols():
    lstm = LSTM(tiny_vocab(6), LSTMConfig(3, 3, 1), rng())
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.zero_()
    measured = perplexity(lstm, random_batch(6, [3, 1, 7]))
    assert (measured.sentences, measured.words) == (3, 11)
    assert measured.perplexity == pytest.approx(7, rel=1e-6)  # six words and the end
    assert measured.low == measured.high == measured.perplexity
    assert measured.how == "exact"


def test_an_impossible_text():
    assert Perplexity(math.inf, math.inf, "exact", -math.inf, 1, 2).perplexity == math.inf


def test_a_field_small_enough_to_enumerate_is_exact():
    lm = model("blstm")
    found = perplexity(lm, TEXT)
    assert found.is_exact
    assert found.low == pytest.approx(truth(lm.fields[0].potential, lm.fields[0].pi))
    assert abs(found.perplexity - found.low) > 1e-3  # zeta was never learned


@pytest.fixture
def nothing_enumerated(monkeypatch):
    original = Bracket.__init__
    monkeypatch.setattr(Bracket, "__init__", lambda *a, **k: original(*a, **k, most_enumerated=0))


def test_the_interval_holds_the_truth_and_is_as_narrow_as_asked(nothing_enumerated):
    lm, seen = model("blstm"), []
    found = perplexity(lm, TEXT, SMCConfig(size=50), Effort(gap=0.05, **NO_LIMIT), seen.append)
    expected = truth(lm.fields[0].potential, lm.fields[0].pi)
    assert found.low < expected < found.high
    assert found.gap <= 0.05
    assert found.estimate == pytest.approx(expected, rel=0.02)
    assert len(seen) == found.rounds > 1
    gaps = [so_far.gap for so_far in seen]
    assert gaps == sorted(gaps, reverse=True)
    again = perplexity(lm, TEXT, SMCConfig(size=50), Effort(gap=0.05, **NO_LIMIT))
    assert (again.low, again.high) == (found.low, found.high)


def test_another_estimator_checks_the_interval(nothing_enumerated, monkeypatch):
    """Both hold the truth; one whose weights are off by a factor of e^2 is caught."""
    lm, effort = model("blstm"), Effort(gap=0.05, **NO_LIMIT)
    expected = truth(lm.fields[0].potential, lm.fields[0].pi)
    found = perplexity(lm, TEXT, SMCConfig(size=50), effort, check=AISConfig())
    assert found.check is not None
    assert found.check.low < expected < found.check.high
    assert found.check.how != found.how
    assert found.check.gap <= found.gap <= 0.05
    assert not found.disagrees

    forward, backward = AIS.forward, AIS.backward

    def too_much(self, rng, length, n):
        right = forward(self, rng, length, n)
        return replace(right, log_Z_R=right.log_Z_R + 2)

    monkeypatch.setattr(AIS, "forward", too_much)
    monkeypatch.setattr(AIS, "backward", lambda *a: backward(*a) + 2)
    assert perplexity(lm, TEXT, SMCConfig(size=50), effort, check=AISConfig()).disagrees


def test_snapshots_are_averaged_as_perplexities(nothing_enumerated):
    lm = model("blstm", "cnn")
    found = perplexity(lm, TEXT, SMCConfig(size=200), Effort(gap=0.1, **NO_LIMIT))
    expected = sum(truth(one.potential, one.pi) for one in lm.fields) / 2
    assert found.low < expected < found.high
    assert found.gap <= 0.1


def test_an_interrupt_keeps_what_there_is(nothing_enumerated, monkeypatch):
    lm, sizes = model("cnn"), []
    original = narrow.Task.advance

    def interrupted(self, size):
        sizes.append(size)
        if len(sizes) == 3:
            raise KeyboardInterrupt
        original(self, size)

    monkeypatch.setattr(narrow.Task, "advance", interrupted)
    found = perplexity(lm, TEXT, SMCConfig(size=20), Effort(gap=0.0, **NO_LIMIT))
    assert found.interrupted
    assert found.rounds == 2
    assert found.low < found.high < math.inf
    sizes[:] = [0, 0]
    with pytest.raises(KeyboardInterrupt):  # before the first round there is nothing to keep
        perplexity(lm, TEXT, SMCConfig(size=20), Effort(gap=0.0, **NO_LIMIT))


def test_time_ends_it(nothing_enumerated):
    found = perplexity(model("cnn"), TEXT, SMCConfig(size=20), Effort(gap=0.0, minutes=1e-9, burn_in=1, pull_share=0))
    assert found.rounds == 1


def test_lengths_never_seen_are_named():
    lm = model("cnn")
    lm.fields[0].pi[2] = 0
    assert perplexity(lm, TEXT).unseen == (2,)


@pytest.mark.filterwarnings("ignore:the .-grams of this text")
@pytest.mark.parametrize("how", [SMCConfig(size=500), AISConfig(size=4, share=0.8, trials=4, block=3)], ids=["smc", "ais"])
def test_both_ends_within_one_percent_on_words_of_letters(how, monkeypatch):
    """Letters are the words, words the sentences; the field's sums are known by dynamic programming."""
    monkeypatch.setattr(bracket, "RUNS", 300)  # sentences are short: many small estimates, computed together
    said = Path("recipes/tiny/train.txt").read_text().split()
    words = [word for word in sorted(set(said)) if word.isascii() and word.isalpha() and word.islower()]
    vocab = Vocab([UNK, *"abcdefghijklmnopqrstuvwxyz"])
    text = vocab.batch([" ".join(word) for word in words])
    weight_VV = torch.zeros(27, 27, dtype=torch.float64)
    for word in words:
        for a, b in itertools.pairwise(word):
            weight_VV[vocab.encode([a])[0], vocab.encode([b])[0]] += 1
    potential = Bigrams((weight_VV + 0.3).log() * 0.8 + 0.3 * torch.randn(27, 27, generator=rng(1)))
    trf = TRF(vocab, potential, empirical_pi(text.lengths_B))
    proposal = NGramProposal(kneser_ney(text, vocab, KneserNeyConfig(order=3)))
    lm = FieldModel([trf], FieldSampler(proposal, TransMSConfig()))
    log_Z = potential.log_Z(trf.max_length)
    total = float((trf.pi.log()[text.lengths_B] + trf.potential(text).detach() - log_Z[text.lengths_B]).sum())
    expected = math.exp(-total / (text.n_words + len(text)))
    found = perplexity(lm, text, how, Effort(gap=0.018, **NO_LIMIT))
    assert found.low == pytest.approx(expected, rel=0.01)
    assert found.high == pytest.approx(expected, rel=0.01)
    assert found.low < expected < found.high


def test_lengths_never_seen_get_the_floor():
    pi = torch.tensor([0, 0.5, 0, 0.5], dtype=torch.float64)
    assert length_log_probs(pi, [1, 3]) == {1: math.log(0.5), 3: math.log(0.5)}
    log_pi = length_log_probs(pi, [1, 2, 5])
    total = 1 + 3 * PI_FLOOR  # lengths 2, 4 and 5
    assert log_pi[5] == pytest.approx(math.log(PI_FLOOR / total))
    assert log_pi[1] == pytest.approx(math.log(0.5 / total))
