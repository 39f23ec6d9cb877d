"""Every noise-contrastive learner on a language small enough to enumerate: p comes to the data, log Z_l to the truth."""

import math

import pytest
import torch
from harness import random_pi, rng, tiny_vocab

from trflm.field.trf import TRF
from trflm.learning.batches import ShuffledBatches
from trflm.learning.deleted import DeletedReference
from trflm.learning.dnce import DNCE, DNCEConfig
from trflm.learning.loop import training
from trflm.learning.nce import NCE, NCEConfig
from trflm.learning.replacements import Choice, Replacements
from trflm.learning.shards import Shard
from trflm.lms.lstm import LSTM, LSTMConfig
from trflm.lms.ngram import KneserNeyConfig, NGram, kneser_ney
from trflm.lms.noise import ModelNoise, Noise, ProposalNoise
from trflm.lms.proposals.lstm import LSTMProposal, LSTMProposalConfig
from trflm.lms.unigram import Unigram
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.potentials.tilted import Tilted, log_lengths
from trflm.sampling.exact import Exact, all_sentences
from trflm.text import Batch, empirical_pi, pack
from trflm.text.lengths import draw_from_cdf

pytestmark = pytest.mark.filterwarnings("ignore:the .-grams of this text")  # too small for Kneser-Ney discounts

V, M = 3, 3
VOCAB = tiny_vocab(V)
TINY = CNNConfig(embedding=8, projection=8, bank_width=3, bank_filters=8, stack_layers=2, stack_filters=8, init=0.5)


def data_sentences(n: int) -> Batch:
    """Draws from a random distribution over all sentences: nothing the noise could guess."""
    batch = all_sentences(V, M)
    weights = (
        torch.rand(len(batch), generator=rng(7), dtype=torch.float64) ** 3 * random_pi(M)[batch.lengths_B] / V**batch.lengths_B
    )
    return batch.select(draw_from_cdf(weights.cumsum(0), n, rng(8)))


DATA = data_sentences(4000)
PI = empirical_pi(DATA.lengths_B)


def shares(data: Batch) -> torch.Tensor:
    """[S] the empirical distribution over all sentences."""
    number = {x: s for s, x in enumerate(VOCAB.sentences(all_sentences(V, M)))}
    rows = torch.tensor([number[x] for x in VOCAB.sentences(data)])
    return torch.bincount(rows, minlength=len(number)).double() / len(data)


def unigram() -> Unigram:
    return Unigram.estimate(VOCAB, DATA, PI)


def bigram() -> NGram:
    return kneser_ney(DATA, VOCAB, KneserNeyConfig(order=2))


def replacements() -> Replacements:
    return Replacements(unigram(), bigram())


def lstm_proposal() -> LSTMProposal:
    return LSTMProposal(LSTMProposalConfig(units=16, classes=0, init=0.3), V, None, rng(2))


def trained_lstm() -> LSTM:
    return LSTM(VOCAB, LSTMConfig(embedding=6, hidden=6, layers=1, init=0.3), rng(2))


NOISES = {
    "unigram": unigram,
    "ngram": lambda: ModelNoise(bigram()),
    "lstm": lambda: ModelNoise(trained_lstm()),
    "proposal": lambda: ProposalNoise(lstm_proposal(), PI),
}


def plain_field() -> TRF:
    return TRF(VOCAB, CNN(TINY, V, rng(1)), PI)


def tilted_field() -> TRF:
    trf = TRF(VOCAB, Tilted(CNN(TINY, V, rng(1)), bigram()), PI)
    trf.zeta[1:] = (log_lengths(bigram().draw(20_000, rng(3)).lengths_B, M) - trf.log_Z1())[1:]
    trf.zeta[1] = 0
    return trf


STEPS = {"batch": 400, "lr": 1e-2, "lr_log_Z": 3e-2, "constant_epochs": 30, "decay": 0.9}


def nce(noise: Noise, trf: TRF, **settings: float) -> NCE:
    config = NCEConfig(**{**STEPS, "noise_ratio": 4, **settings})  # type: ignore[arg-type]
    return NCE(trf, noise, replacements(), ShuffledBatches(DATA, 400, seed=1), config)


def dnce(**settings: float) -> DNCE:
    config = DNCEConfig(**{**STEPS, "noise_ratio": 4, "lr_noise": 2e-3, **settings})  # type: ignore[arg-type]
    return DNCE(plain_field(), lstm_proposal(), replacements(), ShuffledBatches(DATA, 400, seed=1), config)


def deleted_reference() -> NCE:
    learner = nce(unigram(), tilted_field(), replacements=1)
    learner.deleted = DeletedReference.estimate(bigram(), DATA, VOCAB, 2, 4)
    return learner


LEARNERS = {
    "unigram noise": lambda: nce(unigram(), plain_field()),
    "n-gram noise": lambda: nce(ModelNoise(bigram()), plain_field()),
    "LSTM noise": lambda: nce(ModelNoise(trained_lstm()), plain_field()),
    "n-gram reference and noise": lambda: nce(ModelNoise(bigram()), tilted_field()),
    "n-gram reference by deleted estimates": deleted_reference,
    "replacements": lambda: nce(unigram(), plain_field(), replacements=3),
    "dynamic": dnce,
    "dynamic, no noise among the data": lambda: dnce(alpha=1.0),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_learns_the_data_distribution_and_log_Z(name: str):
    learner = LEARNERS[name]()
    trf, data_S = learner.trf, shares(DATA)

    def divergence() -> float:
        """KL(data || p), p normalised exactly."""
        with torch.no_grad():
            log_p_S = Exact.of(trf.potential, V, M).log_prob(PI)
        return float(torch.special.xlogy(data_S, data_S).sum() - (data_S * log_p_S).sum())

    before = divergence()
    for _ in training(learner, None, epochs=50, seed=1):
        pass
    assert before > 0.2
    assert divergence() < 0.02  # 39 sentences from 4000 draws; the learner's own noise is about 0.005
    with torch.no_grad():
        log_Z = Exact.of(trf.potential, V, M).log_Z[1:]
    assert float((learner.log_Z.detach()[1:] - log_Z).abs().max()) < 0.1
    learner.write_zeta()
    assert trf.zeta[1] == 0
    torch.testing.assert_close(trf.log_Z1() + trf.zeta[2:], learner.log_Z.detach()[2:])


def test_replacements_alone_teach_every_length():
    """Conditional NCE by itself: p given the length comes to the data's, to any constant a length."""
    trf = plain_field()
    pairs_from = replacements()
    adam = torch.optim.Adam(trf.potential.parameters(), lr=1e-2)
    batches = ShuffledBatches(DATA, 400, seed=1)
    for step in range(600):
        adam.param_groups[0]["lr"] = 1e-2 if step < 300 else 2e-3
        batch = batches.of_step(step)
        pairs = pairs_from.pairs(batch, 4, rng(step))
        adam.zero_grad()
        pairs.loss(trf.potential(batch), trf.potential(pairs.replaced)).backward()
        adam.step()
    with torch.no_grad():
        log_p_S = Exact.of(trf.potential, V, M).log_prob(PI)
    data_S = shares(DATA)
    assert float(torch.special.xlogy(data_S, data_S).sum() - (data_S * log_p_S).sum()) < 0.02


def test_replaced_words_are_drawn_from_the_density_that_the_ratio_uses():
    """From the sentence 0 1 2 with its second word drawn anew 40,000 times: share of w = g(w | 0) = g(1 | 0) exp(log odds)."""
    one = Batch(torch.tensor([0, 1, 2]), torch.tensor([3]))
    many = torch.zeros(40_000, dtype=torch.int64)
    pairs = replacements().at(one, many, torch.ones_like(many), rng(6))
    word_R = pairs.replaced.ids_N.view(-1, 3)[:, 1]
    assert (pairs.replaced.ids_N.view(-1, 3)[:, [0, 2]] == torch.tensor([0, 2])).all()
    odds_V = torch.stack([pairs.log_odds_R[word_R == w][0].exp() for w in range(V)])  # g(w) / g(1)
    share_V = torch.bincount(word_R, minlength=V) / len(many)
    assert float((share_V - odds_V / odds_V.sum()).abs().max()) < 0.0125  # five standard errors
    every = Batch(torch.tensor([0, 0, 2, 0, 1, 2, 0, 2, 2]), torch.full((V,), 3))
    one_V = torch.ones(V, dtype=torch.int64)
    for other_V in (unigram().log_word_V.exp(), bigram().log_span(every, one_V, one_V).exp()):  # g is neither of its halves
        assert float((share_V - other_V).abs().max()) > 0.03


@pytest.mark.parametrize("name", NOISES)
def test_noise_draws_what_it_says(name: str):
    """100,000 draws: a share's standard error is at most 0.0016, so 0.008 is five of them. Sentences of more than M words,
    which a left-to-right model may draw, are counted together."""
    noise = NOISES[name]()
    drawn = noise.draw(100_000, rng(3))
    short = drawn.select((drawn.lengths_B <= M).nonzero().squeeze(1))
    expected = noise.log_prob(all_sentences(V, M)).exp()
    share = shares(short) * len(short) / len(drawn)
    assert float((share - expected).abs().max()) < 0.008
    assert abs(float(expected.sum()) - len(short) / len(drawn)) < 0.008
    if name in ("unigram", "proposal"):
        assert abs(float(expected.sum()) - 1) < 1e-6


def test_loss_at_the_truth_is_known():
    """With p = q and nu = 1 nothing can be told apart: the loss is 2 log 2."""
    pi = random_pi(M)
    noise = Unigram(VOCAB, pi, torch.full((V,), -math.log(V)))
    trf = TRF(VOCAB, CNN(TINY, V, rng(1)), pi)
    with torch.no_grad():
        for parameter in trf.potential.parameters():
            parameter.zero_()
    learner = nce(noise, trf, noise_ratio=1)
    loss, accuracy = learner.loss(DATA, torch.zeros(len(DATA)), len(DATA) // 2)
    assert math.isclose(float(loss.detach()), 2 * math.log(2), rel_tol=1e-9)
    assert 0 <= accuracy <= 1


def test_noise_of_unknown_length_counts_as_told_apart():
    """The LSTM draws sentences longer than the field knows. Were they dropped from the mean, log Z would be taught wrongly."""
    trf = plain_field()
    learner = nce(ModelNoise(trained_lstm()), trf, noise_ratio=1)
    noise = learner._known(learner.noise.draw(500, rng(1)))
    assert 0 < len(noise) < 500
    both = pack([DATA.select(torch.arange(500)), noise])
    phi_B = trf.phi(both)
    with torch.no_grad():
        loss, _ = learner.loss(both, phi_B, 500)
        ratio_B = learner.ratio(both, phi_B)
    expected = (torch.nn.functional.softplus(-ratio_B[:500]).sum() + torch.nn.functional.softplus(ratio_B[500:]).sum()) / 500
    torch.testing.assert_close(loss, expected)


def test_choice_of_the_true_distribution_is_the_best():
    """Among 10 words drawn by g, the truth finds the text's own word with the greatest mean log-probability."""
    choice = Choice.of(DATA, replacements(), sentences=2000, words=10, rng=rng(5))
    log_p_S = shares(DATA).clamp(min=1e-12).log()
    number = {x: s for s, x in enumerate(VOCAB.sentences(all_sentences(V, M)))}

    def phi(batch: Batch, sharpness: float) -> torch.Tensor:
        return sharpness * log_p_S[torch.tensor([number[x] for x in VOCAB.sentences(batch)])]

    values = {s: choice.mean_log_prob(phi(choice.sentences, s), phi(choice.pairs.replaced, s)) for s in (0.0, 0.5, 1.0, 1.5)}
    assert max(values, key=lambda s: values[s]) == 1.0
    assert values[0.0] < values[0.5]


def test_learning_rates_fall_after_the_constant_epochs():
    learner = nce(unigram(), plain_field(), lr=1e-2, lr_log_Z=3e-2, constant_epochs=2, decay=0.5)
    for epoch, fall in enumerate((1, 1, 0.5, 0.25)):
        learner.step(epoch * learner.steps_per_epoch, rng(1))
        assert [group["lr"] for group in learner.optimiser.param_groups] == pytest.approx([1e-2 * fall, 3e-2 * fall])


def test_dynamic_noise_comes_to_the_data():
    learner = dnce()
    before = float(learner.noise.log_prob(DATA).mean())
    for _ in training(learner, None, epochs=60, seed=1):
        pass
    entropy = -float(torch.special.xlogy(shares(DATA), shares(DATA)).sum())
    after = float(learner.noise.log_prob(DATA).mean())
    assert before < after - 0.2
    assert after > -entropy - 0.05


def test_the_noise_may_learn_alone_first():
    learner = dnce(noise_epochs=1)
    phi, log_q = learner.trf.phi(DATA), float(learner.noise.log_prob(DATA).mean())
    moments = training(learner, None, epochs=2, seed=1)
    for _ in range(learner.steps_per_epoch):
        assert set(next(moments).metrics) == {"log_q"}
    assert torch.equal(learner.trf.phi(DATA), phi)
    assert float(learner.noise.log_prob(DATA).mean()) > log_q + 0.01
    assert "loss" in next(moments).metrics
    assert not torch.equal(learner.trf.phi(DATA), phi)


def test_shares_of_a_dynamic_step():
    """alpha = 0.25: three noise sentences labelled data for each of data, and nu noise sentences for all four."""
    learner = dnce(alpha=0.25, noise_ratio=2)
    batch = DATA.select(torch.arange(10))
    assert len(learner.labelled_data(batch, rng(1))) == 40
    assert len(learner.noise_of(0, 10, Shard(0, 1, rng(1)))) == 80


def test_pooled_noise_is_a_function_of_the_step():
    """A resumed run comes into the middle of a pool and gets the same sentences; no two steps share them."""
    one, two = nce(unigram(), plain_field()), nce(unigram(), plain_field())
    in_turn = [VOCAB.sentences(one.noise_of(number, 5, Shard(0, 1, rng(9)))) for number in range(45)]
    assert VOCAB.sentences(two.noise_of(33, 5, Shard(0, 1, rng(1)))) == in_turn[33]
    assert len({tuple(x) for x in in_turn}) > 40
