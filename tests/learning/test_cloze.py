"""The cloze learner on a language small enough to enumerate: what each word adds comes to its exact conditional."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from harness import random_pi, rng, tiny_vocab
from torch import nn

from trflm.field.trf import TRF
from trflm.kinds import Start
from trflm.learning.batches import ShuffledBatches
from trflm.learning.cloze import FACTORS, Cloze, ClozeConfig, start_flat
from trflm.learning.loop import training
from trflm.learning.replacements import Replacements
from trflm.lms.ngram import KneserNeyConfig, kneser_ney
from trflm.lms.unigram import Unigram
from trflm.potentials.blstm import BLSTM, BLSTMConfig
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.potentials.discrete import Discrete, DiscreteConfig
from trflm.potentials.mixed import Mixed
from trflm.potentials.protocol import Potential
from trflm.potentials.tilted import Tilted
from trflm.sampling.exact import all_sentences
from trflm.text import Batch, empirical_pi
from trflm.text.lengths import draw_from_cdf

pytestmark = pytest.mark.filterwarnings("ignore:the .-grams of this text")  # too small for Kneser-Ney discounts

V, M = 3, 3
VOCAB = tiny_vocab(V)
TINY = CNNConfig(embedding=8, projection=8, bank_width=3, bank_filters=8, stack_layers=2, stack_filters=8, init=0.5)
ALL = all_sentences(V, M)
NUMBER = {x: s for s, x in enumerate(VOCAB.sentences(ALL))}


def language() -> torch.Tensor:
    """[S] a distribution over all sentences, none of them rarer than a third of the most usual of its length."""
    weight_S = (torch.rand(len(ALL), generator=rng(7), dtype=torch.float64) + 0.5) * random_pi(M)[ALL.lengths_B]
    share_S = weight_S / V**ALL.lengths_B
    return share_S / share_S.sum()


LANGUAGE = language()
DATA = ALL.select(draw_from_cdf(LANGUAGE.cumsum(0), 6000, rng(8)))


def cloze(potential: Potential | None = None, **settings: float) -> Cloze:
    pi = empirical_pi(DATA.lengths_B)
    potential = potential or CNN(TINY, V, rng(1))
    tilted = Tilted(potential, kneser_ney(DATA, VOCAB, KneserNeyConfig(order=1)))
    start_flat(tilted)
    trf = TRF(VOCAB, tilted, pi)
    replacements = Replacements.estimate(VOCAB, DATA, Unigram.estimate(VOCAB, DATA, pi))
    usual = {"batch": 500, "lr": 1e-2, "constant_epochs": 40, "lr_epochs": 80, "weight_decay": 0.0, "warm_up": 10}
    config = ClozeConfig(**{**usual, **settings})  # type: ignore[arg-type]
    return Cloze(trf, replacements, ShuffledBatches(DATA, config.batch, seed=1), config)


def empirical() -> torch.Tensor:
    rows = torch.tensor([NUMBER[x] for x in VOCAB.sentences(DATA)])
    return torch.bincount(rows, minlength=len(ALL)).double() / len(DATA)


def copies_of_all(log_q_V: torch.Tensor, rate: float) -> tuple[torch.Tensor, torch.Tensor]:
    """[N], [N] for each place of each sentence y: how probable a copy y is whose word there is the text's own, or is replaced.

    By enumeration: sum over the texts x of the share of x times the probability of what stands around the place and at it.
    """
    share_S, q_V = empirical(), log_q_V.exp()
    becomes_VV = (1 - rate) * torch.eye(V, dtype=torch.float64) + rate * q_V  # [text's word, copy's word]
    own, replaced = [], []
    for length in range(1, M + 1):
        x_SL = ALL.ids_N[ALL.lengths_B[ALL.sentence_N] == length].view(-1, length)
        share = share_S[ALL.lengths_B == length]
        for y_L in x_SL:
            becomes_SL = becomes_VV[x_SL, y_L]
            for i in range(length):
                joint_S = share * becomes_SL[:, torch.arange(length) != i].prod(1)
                own.append((1 - rate) * joint_S[x_SL[:, i] == y_L[i]].sum())
                replaced.append(rate * q_V[y_L[i]] * joint_S.sum())
    return torch.stack(own), torch.stack(replaced)


def conditionals(log_q_V: torch.Tensor, rate: float) -> torch.Tensor:
    """[N] log P(the text has y_i at i | what stands around it in a copy), for all sentences y: the odds of `copies_of_all`
    without those of being replaced at all."""
    own_N, replaced_N = copies_of_all(log_q_V, rate)
    return (own_N / (1 - rate)).log() - (replaced_N / rate / log_q_V.exp()[ALL.ids_N]).log()


def expected_loss(learner: Cloze, potential: Potential) -> torch.Tensor:
    """The mean over all copies there are, weighted as often as they come, summed over their words."""
    return loss_of_ratio(learner, learner.task.ratio(potential, ALL, None).double())


def loss_of_ratio(learner: Cloze, ratio_N: torch.Tensor) -> torch.Tensor:
    own_N, replaced_N = copies_of_all(learner.task.log_q_V, learner.config.rate)
    return -(own_N * F.logsigmoid(ratio_N) + replaced_N * F.logsigmoid(-ratio_N)).sum()


def learned(learner: Cloze, potential: Potential) -> torch.Tensor:
    """[N] c_i + b + log u of all sentences."""
    with torch.no_grad():
        ratio_N = learner.task.ratio(potential, ALL, None).double()
    rate = learner.config.rate
    return ratio_N + learner.task.log_q_V[ALL.ids_N] + math.log(rate / (1 - rate))


class Free(nn.Module):
    """A number for each place of each sentence there is: what each word adds is free to be anything."""

    def __init__(self) -> None:
        super().__init__()
        self.value_N = nn.Parameter(torch.zeros(ALL.n_words, dtype=torch.float64))

    def contributions(self, batch: Batch, rng: torch.Generator | None = None) -> torch.Tensor:
        sentence_B = torch.tensor([NUMBER[x] for x in VOCAB.sentences(batch)])
        return self.value_N[(ALL.starts_B[sentence_B])[batch.sentence_N] + batch.position_N]

    def forward(self, batch: Batch, rng: torch.Generator | None = None) -> torch.Tensor:
        return batch.sum_words(self.contributions(batch, rng))

    def score(self, batch: Batch) -> torch.Tensor:
        return self(batch).detach()

    def forget(self) -> None:
        """Nothing is kept."""


@pytest.mark.parametrize("rate", [0.25, 0.001])
def test_at_the_least_loss_each_word_has_its_conditional(rate: float):
    """The exact loss at its minimum: c_i + b + log u is the conditional of such copies, and as r -> 0 that of the text: at a
    thousandth they are within 0.003 of one another, at a quarter up to 0.3 apart."""
    learner = cloze(Free(), rate=rate)
    potential = learner.descent.potential
    own_N, replaced_N = copies_of_all(learner.task.log_q_V, rate)
    bfgs = torch.optim.LBFGS(potential.parameters(), max_iter=300, line_search_fn="strong_wolfe", tolerance_change=1e-12)

    def loss() -> torch.Tensor:
        bfgs.zero_grad()
        ratio_N = learner.task.ratio(potential, ALL, None)
        total = -(own_N * F.logsigmoid(ratio_N) + replaced_N * F.logsigmoid(-ratio_N)).sum() / replaced_N.sum()
        total.backward()
        return total

    bfgs.step(loss)  # type: ignore[arg-type]
    text_N = conditionals(learner.task.log_q_V, 1e-9)
    found_N = learned(learner, potential)
    assert float((found_N - conditionals(learner.task.log_q_V, rate)).abs().max()) < 0.005
    assert (float((found_N - text_N).abs().max()) < 0.008) == (rate < 0.01)


def test_the_loss_of_a_step_is_that_of_all_copies_on_average():
    """6000 sentences of the text, twenty copies of each: the mean a word to within 0.005, far from the optimum."""
    learner = cloze()
    with torch.no_grad():
        for parameter in learner.descent.potential.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=rng(3)))
        learner.task.bias.fill_(0.7)
        many = DATA.select(torch.arange(len(DATA)).repeat(20))
        drawn, _ = learner.task.loss(learner.descent.potential, many, rng(4), None)
        words = float((empirical() * ALL.lengths_B).sum())
        expected = expected_loss(learner, learner.descent.potential) / words
    assert abs(float(drawn) - float(expected)) < 0.005


def discrete(features: str) -> Discrete:
    """Weights move by Adagrad on the rows that occur, at ten times the rate."""
    config = DiscreteConfig(features=features, classes=2, unigram=False, rate=10.0)
    return config.build(Start(VOCAB, DATA, rng(1), fresh=True))


POTENTIALS = {
    "CNN": lambda: CNN(TINY, V, rng(1)),
    "mixed": lambda: Mixed([CNN(TINY, V, rng(1)), CNN(TINY, V, rng(2))]),
    "discrete": lambda: discrete("w+ws"),
    "discrete and CNN": lambda: Mixed([discrete("w"), CNN(TINY, V, rng(1))]),
    "BLSTM": lambda: BLSTM(BLSTMConfig(embedding=8, units=8, init=0.1), V, rng(1)),
}


@pytest.mark.parametrize("name", POTENTIALS)
def test_training_brings_the_loss_down(name: str):
    """Towards the least there is, whatever the potential."""
    learner = cloze(POTENTIALS[name](), lr_epochs=6, constant_epochs=3)
    before = float(expected_loss(learner, learner.tilted.potential).detach())
    for _ in training(learner, None, epochs=6, seed=1):
        pass
    own_N, replaced_N = copies_of_all(learner.task.log_q_V, learner.config.rate)
    least = float(loss_of_ratio(learner, own_N.log() - replaced_N.log()))
    assert float(expected_loss(learner, learner.tilted.potential).detach()) < before - 0.4 * (before - least)


def test_the_constant_counts_once_for_every_word():
    """b shifts the log odds of every word by itself, and zeta takes it off again, s b l for l words."""
    learner = cloze()
    copied = ALL.select(torch.arange(len(ALL)))
    before_N = learner.task.ratio(learner.tilted.potential, copied, None).detach()
    zeta = learner.model.trf.zeta.clone()
    with torch.no_grad():
        learner.task.bias.fill_(0.7)
    torch.testing.assert_close(learner.task.ratio(learner.tilted.potential, copied, None).detach(), before_N + 0.7)
    lengths = torch.arange(2, M + 1)
    expected = zeta[2:] - float(learner.tilted.factor) * 0.7 * lengths
    torch.testing.assert_close(learner.model.trf.zeta[2:], expected, rtol=0, atol=1e-6)


def test_starts_at_chance():
    """phi = 0 on a unigram reference: every word has the odds of being replaced, and no more is known."""
    learner = cloze()
    loss, _ = learner.task.loss(learner.descent.potential, DATA, rng(1), None)
    rate = learner.config.rate
    assert abs(float(loss.detach()) + rate * math.log(rate) + (1 - rate) * math.log(1 - rate)) < 0.02


def test_copies_replace_words_by_the_density_of_the_ratio():
    """60,000 words: the share replaced to within 0.01, and the words put in as q has them, own words among them."""
    learner = cloze()
    same = Batch(torch.zeros(60_000, dtype=torch.int64), torch.full((20_000,), 3))
    copy, own_N = learner.task.copies(same, rng(2))
    assert abs(float((~own_N).double().mean()) - learner.config.rate) < 0.01
    assert (copy.ids_N[own_N] == 0).all()
    share_V = torch.bincount(copy.ids_N[~own_N], minlength=V) / int((~own_N).sum())
    assert float((share_V - learner.task.log_q_V.exp()).abs().max()) < 0.02
    torch.testing.assert_close(learner.task.log_q_V.exp().sum(), torch.ones((), dtype=torch.float64))


def test_the_factor_is_the_one_that_chooses_best():
    """And log p(x) = log u(x) + s (phi(x) + b l) with it, but for one word alone, whose log Z_1 is exact."""
    learner = cloze()
    dev: dict[str, float] = {}
    for moment in training(learner, DATA, epochs=8, seed=1):
        dev = moment.dev or dev
    choice, tilted = learner.dev_choice.on(DATA), learner.tilted
    values = {}
    for factor in FACTORS:
        tilted.factor.fill_(factor)
        values[factor] = choice.log_prob(learner.trf)
    best = max(values, key=lambda factor: values[factor])
    assert dev["factor"] == best
    assert dev["criterion"] == pytest.approx(values[best])
    assert values[best] > values[FACTORS[0]]
    tilted.factor.fill_(best)
    learner.write_zeta()
    batch = ALL.select((ALL.lengths_B > 1).nonzero().squeeze(1))
    with torch.no_grad():
        phi_B = tilted.potential(batch).double() + learner.task.bias.double() * batch.lengths_B
    torch.testing.assert_close(learner.trf.log_prob(batch), tilted.reference.log_prob(batch) + best * phi_B, rtol=0, atol=1e-5)


def test_the_field_is_the_mean_of_the_steps():
    """By hand, over three steps: the mean keeps (t + 1) / (t + 10) until that is above `average`."""
    learner = cloze(average=0.15)
    mean = [p.detach().clone() for p in learner.tilted.potential.parameters()]
    for step, keep in enumerate((0.1, 0.15, 0.15)):
        learner.step(step, rng(step))
        now = [p.detach() for p in learner.descent.potential.parameters()]
        mean = [keep * m + (1 - keep) * p for m, p in zip(mean, now, strict=True)]
    for m, p in zip(mean, learner.tilted.potential.parameters(), strict=True):
        torch.testing.assert_close(p.detach(), m)


def test_the_learning_rate_rises_then_falls():
    config = ClozeConfig(lr=1.0, warm_up=4, constant_epochs=2, lr_epochs=6)
    assert [config.lr_at(number, 0.0) for number in range(5)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert [config.lr_at(100, epoch) for epoch in (2, 4, 5)] == pytest.approx([1.0, 0.5, (1 - math.sqrt(0.5)) / 2])
    assert config.lr_at(100, 9) == 1e-3


def test_goes_on_bit_for_bit():
    """Two epochs at once, or one, saved, loaded into a fresh learner, and one more: the same bits."""
    at_once, before, after = cloze(), cloze(), cloze()
    for _ in training(at_once, DATA, epochs=2, seed=1):
        pass
    for _ in training(before, DATA, epochs=1, seed=1):
        pass
    after.load_state_dict(copy.deepcopy(before.state_dict()))
    for _ in training(after, DATA, epochs=2, seed=1, steps_done=before.steps_per_epoch):
        pass
    assert torch.equal(at_once.model.trf.log_prob(ALL), after.model.trf.log_prob(ALL))
    assert torch.equal(at_once.task.bias, after.task.bias)
    for one, two in zip(at_once.descent.theta, after.descent.theta, strict=True):
        assert torch.equal(one, two)
