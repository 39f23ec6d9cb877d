"""The discrete field on a language small enough to enumerate: its log-likelihood is concave, learners find its maximum."""

import copy
import dataclasses

import pytest
import torch
from harness import random_pi, rng, sentence_numbers, tiny_vocab

from trflm.field.trf import TRF
from trflm.learning.augsa import AugSA, AugSAConfig
from trflm.learning.batches import ShuffledBatches
from trflm.learning.dnce import DNCE, DNCEConfig
from trflm.learning.loop import Learner, training
from trflm.learning.nce import NCE, NCEConfig
from trflm.learning.replacements import Replacements
from trflm.learning.word_choice import WordChoice, WordChoiceConfig
from trflm.lms.ngram import KneserNeyConfig, kneser_ney
from trflm.lms.noise import ModelNoise
from trflm.lms.proposals.lstm import LSTMProposal, LSTMProposalConfig
from trflm.lms.unigram import Unigram
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.potentials.discrete import Alphabet, Discrete, DiscreteConfig, count_features
from trflm.potentials.mixed import Mixed
from trflm.sampling.exact import Exact, all_sentences, log_likelihood
from trflm.text import Batch, empirical_pi, training_pi0
from trflm.text.lengths import draw_from_cdf

pytestmark = pytest.mark.filterwarnings("ignore:the .-grams of this text")  # too small for Kneser-Ney discounts

V, M = 3, 3
VOCAB = tiny_vocab(V)
CONFIG = DiscreteConfig(features="w+cs+ws", order=2)


def sentences(n: int) -> Batch:
    """Draws from a random distribution over all sentences."""
    batch = all_sentences(V, M)
    weights = torch.rand(len(batch), generator=rng(7), dtype=torch.float64) ** 2
    weights *= random_pi(M)[batch.lengths_B] / V**batch.lengths_B
    return batch.select(draw_from_cdf(weights.cumsum(0), n, rng(8)))


DATA = sentences(4000)
PI = empirical_pi(DATA.lengths_B)
DATA_S = torch.bincount(sentence_numbers(DATA, V), minlength=len(all_sentences(V, M))).double() / len(DATA)


def a_potential() -> Discrete:
    return Discrete(CONFIG, V, count_features(DATA, CONFIG.patterns, Alphabet(V, torch.tensor([0, 1, 1])), (1,)))


def exact_maximum(start: Discrete) -> tuple[Discrete, float]:
    """By exact ascent."""
    best = copy.deepcopy(start).double()
    optimiser = torch.optim.LBFGS(best.parameters(), max_iter=300, tolerance_grad=1e-9, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = -log_likelihood(best, V, DATA_S, PI)
        loss.backward()
        return loss

    optimiser.step(closure)
    with torch.no_grad():
        return best, float(log_likelihood(best, V, DATA_S, PI))


def exact_log_likelihood(potential: Discrete | Mixed) -> float:
    with torch.no_grad():
        return float(log_likelihood(potential, V, DATA_S, PI))


def build(potential: Discrete | Mixed, config: object, zeta: torch.Tensor | None = None) -> Learner:
    trf = TRF(VOCAB, potential, PI)
    if zeta is not None:
        trf.zeta.copy_(zeta)
    unigram = Unigram.estimate(VOCAB, DATA, PI)
    replacements = Replacements.estimate(VOCAB, DATA, unigram)
    proposal = LSTMProposal(LSTMProposalConfig(units=8, init=0.3), V, torch.tensor([0, 1, 1]), rng(2))
    match config:
        case AugSAConfig():
            return AugSA(trf, proposal, training_pi0(PI), ShuffledBatches(DATA, config.batch, 1), config, rng(3))
        case DNCEConfig():
            return DNCE(trf, proposal, replacements, ShuffledBatches(DATA, config.batch, 1), config)
        case NCEConfig():
            noise = ModelNoise(kneser_ney(DATA, VOCAB, KneserNeyConfig(order=1)))
            return NCE(trf, noise, replacements, ShuffledBatches(DATA, config.batch, 1), config)
        case WordChoiceConfig():
            assert isinstance(potential, Discrete)
            return WordChoice(trf, potential, replacements, ShuffledBatches(DATA, config.batch, 1), config)
    raise AssertionError


def test_the_maximum_is_one_whatever_the_start():
    _, from_zero = exact_maximum(a_potential())
    far = a_potential()
    torch.nn.init.normal_(far.weight, generator=rng(5))
    _, from_far = exact_maximum(far)
    assert abs(from_zero - from_far) < 1e-7
    assert from_zero - exact_log_likelihood(a_potential().double()) > 0.05


def test_augsa_reaches_the_exact_maximum():
    """Adagrad comes to rest, but for the noise of 500 chains; without it the difference would be 0."""
    _, most = exact_maximum(a_potential())
    potential = a_potential()
    torch.nn.init.normal_(potential.weight, generator=rng(5))  # from far
    config = AugSAConfig(
        batch=400, chains=500, jump_range=2, block=2, trials=3, lr=60.0, lr_delay=200.0, zeta_decay=0.6, lr_proposal=0.2
    )  # fmt: skip
    before = exact_log_likelihood(potential)
    learner = build(potential, config)
    for _ in training(learner, None, epochs=40, seed=1):
        pass
    assert most - before > 0.2
    assert most - exact_log_likelihood(potential) < 2e-3
    assert isinstance(learner, AugSA)
    with torch.no_grad():
        torch.testing.assert_close(learner.trf.zeta, Exact.of(potential, V, M).zeta, rtol=0, atol=0.1)


@pytest.mark.parametrize(
    ("config", "within"),
    [
        (NCEConfig(batch=400, noise_ratio=4, lr=0.1, lr_log_Z=0.1, constant_epochs=10, decay=0.7), 0.01),
        (DNCEConfig(batch=400, noise_ratio=4, lr=0.1, lr_log_Z=0.1, constant_epochs=10, decay=0.7, alpha=1.0), 0.01),
        (WordChoiceConfig(batch=400, words=4, lr=0.1, constant_epochs=10, decay=0.7), 0.02),
    ],
)
def test_other_learners_come_near_it(config, within):
    """They are consistent for data of the model; these are not of it, so their optimum is near the maximum, not at it."""
    _, most = exact_maximum(a_potential())
    potential = a_potential()
    torch.nn.init.normal_(potential.weight, generator=rng(5))
    for _ in training(build(potential, config), None, epochs=20, seed=1):
        pass
    assert most - exact_log_likelihood(potential) < within


@pytest.mark.parametrize(
    ("config", "ahead"),
    [
        (AugSAConfig(batch=400, jump_range=2, block=2, trials=3, lr=6.0, lr_delay=200.0, zeta_decay=0.6, lr_proposal=0.2), 4.0),
        (NCEConfig(batch=400, noise_ratio=1, lr=5e-3, lr_log_Z=0.05), 20.0),
    ],
)
def test_pseudo_likelihood_is_a_better_start_than_zero(config, ahead):
    """At a small rate; what either falls short of the maximum by after 20 steps. At ten times the rate the first steps, while
    chains and proposal are not yet those of the field, throw away what AugSA started with."""
    _, most = exact_maximum(a_potential())
    first = build(a_potential(), WordChoiceConfig(batch=400, lr=0.3, constant_epochs=10, decay=0.7))
    for _ in training(first, None, epochs=20, seed=1):
        pass
    assert isinstance(first, WordChoice)
    first.write_zeta()

    def short_of_it(potential: Discrete, zeta: torch.Tensor | None) -> float:
        for _ in training(build(potential, config, zeta), None, epochs=2, seed=1):
            pass
        return most - exact_log_likelihood(potential)

    assert ahead * short_of_it(copy.deepcopy(first.potential), first.trf.zeta) < short_of_it(a_potential(), None)


def test_mixed_with_a_cnn_any_learner_trains_both_parts():
    tiny = CNNConfig(embedding=4, projection=4, bank_width=2, bank_filters=4, stack_layers=1, stack_filters=4, init=0.3)
    config = NCEConfig(batch=400, replacements=1, lr=0.05, lr_log_Z=0.1, weight_decay=1e-3)
    augsa = AugSAConfig(batch=400, chains=50, jump_range=2, block=2, trials=2, lr=1.0, lr_delay=50.0)
    for settings in (config, augsa, DNCEConfig(**{**dataclasses.asdict(config), "kind": "dnce"})):
        mixed = Mixed([a_potential(), CNN(tiny, V, rng(1))])
        start = {name: value.clone() for name, value in mixed.state_dict().items()}
        before = exact_log_likelihood(mixed)
        for _ in training(build(mixed, settings), None, epochs=3, seed=1):
            pass
        assert exact_log_likelihood(mixed) > before + 0.02
        moved = {name for name, value in mixed.state_dict().items() if not torch.equal(value, start[name])}
        assert "part.0.weight" in moved
        assert "part.1.embedding" in moved


def test_word_choice_writes_a_zeta_near_the_truth():
    """For text of a field that is near its bigram model. The middle of the two bounds errs in third order."""
    potential = a_potential()
    learner = build(potential, WordChoiceConfig(batch=400, words=4, lr=0.1))
    for _ in training(learner, None, epochs=10, seed=1):
        pass
    assert isinstance(learner, WordChoice)
    learner.write_zeta()
    with torch.no_grad():
        zeta = Exact.of(potential, V, M).zeta
    assert float(zeta[3].abs()) > 1
    torch.testing.assert_close(learner.trf.zeta, zeta, rtol=0, atol=0.3)


def test_the_loss_of_word_choice_is_that_of_whole_sentences():
    """phi of each sentence with each word put in each place, and g of that word as the pairs of conditional NCE have it."""
    potential = a_potential().double()
    torch.nn.init.normal_(potential.weight, generator=rng(5))
    learner = build(potential, WordChoiceConfig(words=4))
    assert isinstance(learner, WordChoice)
    batch, A = DATA.select(torch.arange(20)), 5
    word_NA, _ = learner.replacements.choices(batch, 4, rng(1))
    assert torch.equal(word_NA[:, 0], batch.ids_N)
    every = batch.select(batch.sentence_N.repeat_interleave(A))
    place = batch.position_N.repeat_interleave(A)
    every.ids_N[every.starts_B + place] = word_NA.flatten()
    score_NA = (potential(every) - learner.replacements._log_g(every, place)).view(-1, A)
    loss, _ = learner.loss(batch, rng(1))
    torch.testing.assert_close(loss, -score_NA.log_softmax(1)[:, 0].mean(), rtol=1e-9, atol=1e-9)


def test_words_to_choose_among_are_drawn_from_g():
    """4,000 draws for one place: a share has a standard error of 0.008 at most; five of them."""
    unigram = Unigram.estimate(VOCAB, DATA, PI)
    replacements = Replacements.estimate(VOCAB, DATA, unigram)
    word_NA, log_g_NA = replacements.choices(Batch(torch.tensor([2, 0]), torch.tensor([2])), 4000, rng(1))
    for word_A, log_g_A in zip(word_NA, log_g_NA, strict=True):
        for word in range(V):
            share = float((word_A[1:] == word).double().mean())
            assert abs(share - float(log_g_A[word_A == word][0].exp())) < 0.04
