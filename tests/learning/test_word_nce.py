"""The word-wise start of a BLSTM potential: both directions become models of the text that sum to one without a softmax."""

import copy

import pytest
import torch
from harness import rng, tiny_vocab

from trflm.field.trf import TRF
from trflm.learning.batches import ShuffledBatches
from trflm.learning.exponents import Exponents
from trflm.learning.loop import training
from trflm.learning.replacements import Replacements
from trflm.learning.word_nce import SHARES, WordNCE, WordNCEConfig
from trflm.lms.ngram import KneserNeyConfig, kneser_ney
from trflm.lms.unigram import Unigram
from trflm.potentials.blstm import BLSTM, BLSTMConfig
from trflm.potentials.tilted import Tilted
from trflm.sampling.exact import all_sentences
from trflm.text import Batch, empirical_pi

V, M = 4, 3
VOCAB = tiny_vocab(V)


def chain_sentences(n: int) -> Batch:
    """A Markov chain over the words with random transitions, stopped with probability 0.4 after a word, at M at the latest."""
    transition_VV = torch.softmax(2 * torch.randn(V + 1, V, generator=rng(5)), 1)
    lengths = 1 + (torch.rand(n, M - 1, generator=rng(6)) < 0.6).long().cumprod(1).sum(1)
    words, last = [], torch.full((n,), V)
    for _ in range(M):
        last = torch.multinomial(transition_VV[last], 1, generator=rng(7 + len(words))).squeeze(1)
        words.append(last)
    inside = torch.arange(M) < lengths[:, None]
    return Batch(torch.stack(words, 1)[inside], lengths)


@pytest.fixture(scope="module")
def learner() -> WordNCE:
    text = chain_sentences(3000)
    pi = empirical_pi(text.lengths_B)
    blstm = BLSTM(BLSTMConfig(embedding=12, units=12, init=0.3), V, rng(1))
    trf = TRF(VOCAB, blstm, pi)
    replacements = Replacements.estimate(VOCAB, text, Unigram.estimate(VOCAB, text, pi))
    config = WordNCEConfig(batch=100, noise_words=60, lr=2e-2, warm_up=0, constant_epochs=8, lr_epochs=15, weight_decay=0)
    learner = WordNCE(trf, blstm, replacements, ShuffledBatches(text, 100, seed=1, alike=True), config)
    for _ in training(learner, None, epochs=15, seed=1):
        pass
    return learner


def direction_scores(learner: WordNCE, direction: int, batch: Batch) -> torch.Tensor:
    """[R] s(x_t) of one direction at every place of one sentence, the marker at its end included."""
    with torch.no_grad():
        h_RE, symbol_R = learner.potential.predictions(batch)[direction]
        bias = torch.cat([learner.potential.bias, learner.marker_bias])
        return 2 * (h_RE * learner.potential.embedding[symbol_R]).sum(1) + bias[symbol_R]


def test_each_direction_is_a_model_of_the_text_that_sums_to_one(learner: WordNCE):
    """exp(sum_t s_t) over all sentences sums to about one, and is about the text's own distribution."""
    batch = all_sentences(V, M)
    text = learner.batches.sentences.whole()
    counts = dict.fromkeys(VOCAB.sentences(batch), 0)
    for x in VOCAB.sentences(text):
        counts[x] += 1
    share_S = torch.tensor([counts[x] for x in VOCAB.sentences(batch)]).double() / len(text)
    for direction in (0, 1):
        score_S = torch.stack(
            [direction_scores(learner, direction, batch.select(torch.tensor([s]))).sum() for s in range(len(batch))]
        ).double()
        assert abs(float(torch.logsumexp(score_S, 0))) < 0.15
        kl = float(torch.special.xlogy(share_S, share_S).sum() - (share_S * score_S.log_softmax(0)).sum())
        assert kl < 0.05


def test_the_field_scores_with_the_mean_of_both(learner: WordNCE):
    """log p(x) = (sum_t s_f + sum_t s_b) / 2, the markers included; but one word alone, whose log Z_1 is exact."""
    learner.write_zeta()
    for s in (7, 40, 83):
        one = all_sentences(V, M).select(torch.tensor([s]))
        expected = sum(direction_scores(learner, direction, one).sum().double() for direction in (0, 1)) / 2
        assert isinstance(expected, torch.Tensor)
        torch.testing.assert_close(learner.trf.log_prob(one)[0], expected, rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("ignore:the .-grams of this text")
def test_on_a_reference_the_field_is_the_mean_that_chooses_dev_text_best(learner: WordNCE):
    """phi is learned as without it. Of all shares the one is taken with which the field has the best dev choice, and log p is
    that mean of both models' log-probabilities, but of one word alone."""
    learner = copy.deepcopy(learner)
    text, bias_V = learner.batches.sentences.whole(), learner.potential.bias.detach().clone()
    reference = kneser_ney(text.select(torch.arange(60)), VOCAB, KneserNeyConfig(order=2))
    trf = TRF(VOCAB, Tilted(learner.potential, reference), learner.trf.pi)
    tilting = WordNCE(trf, learner.potential, learner.replacements, learner.batches, learner.config)
    with torch.no_grad():
        tilting.marker_bias.copy_(learner.marker_bias)
        learner.potential.bias.copy_(bias_V + 0.5 * torch.randn(V, generator=rng(3)))  # not so good alone
    found = tilting.evaluate(text)
    tilted = trf.potential
    assert isinstance(tilted, Tilted)
    assert found["share"] == float(tilted.share) == pytest.approx(1 - float(tilted.factor))
    assert 0 < found["share"] < SHARES[-1]
    values = {}
    for share in SHARES:
        Exponents(share, 1 - share).set(tilted)
        values[share] = tilting.dev_choice.of(text, trf)
    assert found["share"] == max(values, key=lambda share: values[share])
    assert found["dev_choice"] == pytest.approx(values[found["share"]])
    Exponents(0.25, 0.75).set(tilted)
    tilting.write_zeta()
    learner.write_zeta()
    batch = all_sentences(V, M)
    some = batch.select((batch.lengths_B > 1).nonzero().squeeze(1))
    mean_B = 0.25 * reference.log_prob(some) + 0.75 * learner.trf.log_prob(some)
    torch.testing.assert_close(trf.log_prob(some), mean_B, rtol=0, atol=1e-5)


def test_batches_that_are_alike_are_a_shuffle_of_the_text():
    text = chain_sentences(1000)
    batches = ShuffledBatches(text, 50, seed=3, alike=True)
    of_epoch = [batches.of_step(step) for step in range(batches.per_epoch)]
    assert sorted(VOCAB.sentences(text)) == sorted(x for batch in of_epoch for x in VOCAB.sentences(batch))
    spread = [int(batch.lengths_B.max() - batch.lengths_B.min()) for batch in of_epoch]
    plain = ShuffledBatches(text, 50, seed=3)
    assert sum(spread) < sum(int(b.lengths_B.max() - b.lengths_B.min()) for b in map(plain.of_step, range(plain.per_epoch)))
    first = [VOCAB.sentences(batches.of_step(k)) for k in range(3)]
    assert first != [VOCAB.sentences(batches.of_step(batches.per_epoch + k)) for k in range(3)]
