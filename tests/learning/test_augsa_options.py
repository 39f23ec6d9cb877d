"""What AugSA can do beyond the paper, on a language small enough to enumerate: each option, and all of them at once."""

import copy
import dataclasses
import functools

import pytest
import torch
from enumerable import Bigrams
from harness import check_learner, random_pi, rng, sentence_numbers, tiny_vocab

from trflm.field.trf import TRF
from trflm.learning.augsa import AugSA, AugSAConfig
from trflm.learning.average import MeanField
from trflm.learning.balance import balanced
from trflm.learning.batches import ShuffledBatches
from trflm.learning.loop import training
from trflm.lms.proposals.lstm import LSTMProposal, LSTMProposalConfig
from trflm.sampling.chains import Chains, MoveInfo
from trflm.sampling.exact import Exact, all_sentences, expected_gradient, log_likelihood
from trflm.text import Batch, empirical_pi, training_pi0
from trflm.text.lengths import draw_from_cdf

V, M = 3, 4
ALL = AugSAConfig(
    batch=300,
    chains=300,
    block=2,
    trials=3,
    window=6,
    weigh_trials=True,
    lr=0.0,
    lr_delay=100.0,
    warm_up=10,
    epsilon=1e-4,
    balance_lengths=True,
    average=0.99,
    zeta_decay=0.6,
    zeta_first_stage=60,
    zeta_smooth=0.02,
    expected_lengths=True,
    zeta_follows=True,
    calibration_steps=10,
    lr_proposal=0.01,
    adam_proposal=True,
    data_proposal=0.3,
    refresh_below=0.9,
    refresh_steps=2,
)


def sentences(n: int) -> tuple[Batch, torch.Tensor]:
    """n draws from a random distribution over all sentences, and their shares."""
    batch = all_sentences(V, M)
    weights = torch.rand(len(batch), generator=rng(7), dtype=torch.float64) ** 3
    weights *= random_pi(M)[batch.lengths_B] / V**batch.lengths_B
    data = batch.select(draw_from_cdf(weights.cumsum(0), n, rng(8)))
    return data, torch.bincount(sentence_numbers(data, V), minlength=len(batch)).double() / n


def a_learner(config: AugSAConfig, data: Batch) -> AugSA:
    pi = empirical_pi(data.lengths_B)
    trf = TRF(tiny_vocab(V), Bigrams(torch.randn(V, V, generator=rng(1))), pi)
    proposal = LSTMProposal(LSTMProposalConfig(units=6, init=0.3), V, torch.tensor([0, 1, 1]), rng(2))
    return AugSA(trf, proposal, training_pi0(pi), ShuffledBatches(data, config.batch, 1), config, rng(3))


def run(learner: AugSA, steps: int) -> None:
    for moment in training(learner, None, epochs=steps, seed=1):
        if moment.step == steps:
            break


LENGTHS = {"counted": {}, "flows": {"zeta_flows": True}, "held": {"zeta_flows": True, "hold_lengths": True}}


@pytest.mark.parametrize("lengths", LENGTHS)
def test_with_every_option_zeta_reaches_the_exact_log_Z_ratios(lengths):
    """1000 chains, 300 steps, most with a gain of 1/t: the standard error is about 0.004."""
    data, _ = sentences(2000)
    learner = a_learner(dataclasses.replace(ALL, chains=1000, **LENGTHS[lengths]), data)
    learner.trf.zeta.copy_(torch.tensor([0.0, 0, 3, 1, 2]))  # far off
    run(learner, 300)
    with torch.no_grad():
        zeta = Exact.of(learner.trf.potential, V, M).zeta
    assert float((learner.trf.zeta - zeta).abs().max()) < 0.01
    assert learner.trf.zeta[1] == 0


@pytest.mark.parametrize("lengths", ["counted", "held"])
def test_with_every_option_theta_reaches_the_exact_maximum(lengths):
    data, data_S = sentences(2000)
    config = dataclasses.replace(ALL, batch=2000, lr=6.0, zeta_first_stage=0, average=0.95, **LENGTHS[lengths])
    learner = a_learner(config, data)
    pi, best = empirical_pi(data.lengths_B), copy.deepcopy(learner.trf.potential)
    optimiser = torch.optim.LBFGS(best.parameters(), max_iter=200)

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = -log_likelihood(best, V, data_S, pi)
        value.backward()
        return value

    optimiser.step(loss)  # type: ignore[arg-type]
    with torch.no_grad():
        most = float(log_likelihood(best, V, data_S, pi))
        before = float(log_likelihood(learner.trf.potential, V, data_S, pi))
    run(learner, 350)
    trf = learner.model.trf
    with torch.no_grad():
        after, exact = float(log_likelihood(trf.potential, V, data_S, pi)), Exact.of(trf.potential, V, M).zeta
    assert most - before > 0.3
    assert most - after < 0.002
    assert float((trf.zeta - exact).abs().max()) < 0.05  # the mean lags a little behind


def test_held_lengths_stay_as_pi0_has_them():
    data, _ = sentences(300)
    learner = a_learner(dataclasses.replace(ALL, **LENGTHS["held"]), data)
    before, words = learner.chains.lengths_B.clone(), learner.chains.ids_N.clone()
    count_l = torch.bincount(before, minlength=M + 1)
    assert float((count_l - 300 * learner.pi0).abs().max()) < 1
    run(learner, 3)
    assert torch.equal(learner.chains.lengths_B, before)
    assert not torch.equal(learner.chains.ids_N, words)


def test_held_chains_are_weighed_as_pi_has_their_lengths():
    """Ten chains cannot have the shares of pi0: each length that has chains counts as much as in pi all the same."""
    learner = a_learner(dataclasses.replace(ALL, chains=10, **LENGTHS["held"]), sentences(300)[0])
    drawn, weight_C = learner._drawn(None)
    weight_l = torch.zeros_like(learner.trf.pi).index_add(0, drawn.lengths_B, weight_C)
    there_l = torch.bincount(drawn.lengths_B, minlength=M + 1) > 0
    torch.testing.assert_close(weight_l, learner.trf.pi * there_l)
    assert int(there_l.sum()) > 2


def test_balanced_weights_have_the_lengths_of_pi():
    lengths = torch.tensor([1, 2, 3, 7, 7, 9])
    weight = balanced(torch.full((6,), 1 / 6), lengths, 4.0)
    assert float(weight.sum()) == pytest.approx(1)
    assert float((weight * lengths).sum()) == pytest.approx(4)
    torch.testing.assert_close(balanced(torch.full((6,), 1 / 6), lengths, 29 / 6), torch.full((6,), 1 / 6).double())
    torch.testing.assert_close(balanced(torch.ones(3), torch.tensor([2, 2, 2]), 4.0), torch.full((3,), 1 / 3).double())


GRADIENTS = 120


@functools.cache
def gradients_at_rest(balance_lengths: bool, weigh_trials: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """theta and zeta at rest, chains in equilibrium, all data in every step: gradients, and the exact one."""
    data, _ = sentences(600)
    rest = dataclasses.replace(ALL, zeta_follows=False, average=0.0, warm_up=0, batch=600, lr_proposal=0.0)
    learner = a_learner(dataclasses.replace(rest, balance_lengths=balance_lengths, weigh_trials=weigh_trials), data)
    with torch.no_grad():
        exact = Exact.of(learner.trf.potential, V, M)
        learner.trf.zeta.copy_(exact.zeta)
        p_S = exact.log_prob(learner.pi0).exp()
    learner.chains = exact.batch.select(torch.multinomial(p_S, 300, True, generator=rng(4)))
    learner.t = 10**6  # zeta rests
    gradients = []
    for step in range(GRADIENTS):
        learner.update(data, rng(step))
        gradients.append(torch.cat([p.grad.flatten().clone() for p in learner.theta if p.grad is not None]))
    one = learner.trf.potential(data).sum() / len(data)
    of_field = expected_gradient(learner.trf.potential, V, learner.trf.pi)
    of_data = torch.autograd.grad(one, learner.theta)
    return torch.stack(gradients), torch.cat([(f - d).flatten() for f, d in zip(of_field, of_data, strict=True)])


@pytest.mark.parametrize(("balance_lengths", "weigh_trials"), [(True, False), (False, True), (True, True)])
def test_the_gradient_has_the_exact_mean_and_less_noise(balance_lengths, weigh_trials):
    """The mean of 120 has a 120th of the variance of one; the bias of balanced weights of 300 chains is smaller still."""
    found, exact = gradients_at_rest(balance_lengths, weigh_trials)
    plain, _ = gradients_at_rest(False, False)
    noise = float(found.var(0).sum())
    assert float((found.mean(0) - exact).square().sum()) < 10 * noise / GRADIENTS
    assert noise < 0.9 * float(plain.var(0).sum())


def test_warm_up_and_epsilon():
    """Adam's first step is lr g / (|g| + eps): with the rate of the first of warm_up + 1 steps."""
    data, _ = sentences(300)
    config = dataclasses.replace(ALL, lr=100.0, lr_delay=999.0, calibration_steps=0, epsilon=0.5, zeta_follows=False)
    learner = a_learner(config, data)
    before = [p.detach().clone() for p in learner.theta]
    learner.update(data, rng(5))
    for parameter, old in zip(learner.theta, before, strict=True):
        g = parameter.grad
        assert g is not None
        torch.testing.assert_close(parameter.detach(), old - 0.1 / 11 * g / (g.abs() + 0.5))


def test_without_momentum_every_step_is_of_its_own_gradient():
    """With a large epsilon and no momentum: plain descent, lr g / epsilon, in the second step too."""
    data, _ = sentences(300)
    config = dataclasses.replace(
        ALL, lr=100.0, lr_delay=1e4, calibration_steps=0, warm_up=0, epsilon=1e6, momentum=0.0, zeta_follows=False
    )
    learner = a_learner(config, data)
    learner.update(data, rng(5))
    before = [p.detach().clone() for p in learner.theta]
    learner.update(data, rng(6))
    for parameter, old in zip(learner.theta, before, strict=True):
        assert parameter.grad is not None
        expected = -100.0 / (2 + 1e4) / 1e6 * parameter.grad
        torch.testing.assert_close((parameter.detach() - old) / expected.norm(), expected / expected.norm(), atol=1e-4, rtol=0)


def first_weight(mean: MeanField) -> float:
    return float(next(iter(mean.trf.potential.parameters())).detach()[0, 0])


def test_the_mean_is_a_mean_over_the_last_steps():
    learner = a_learner(ALL, sentences(300)[0])
    mean, values = MeanField(learner.trf, 0.9), []
    for n in range(1, 301):
        with torch.no_grad():
            learner.theta[0].fill_(float(n))
            learner.trf.zeta.fill_(2.0 * n)
        mean.update(learner.trf, n)
        values.append(first_weight(mean))
    assert values[-1] == pytest.approx(300 - 9, abs=0.01)  # 0.9 / 0.1 steps behind
    assert float(mean.trf.zeta[2]) == pytest.approx(2 * (300 - 9), abs=0.02)
    slow = MeanField(learner.trf, 0.999999)
    for n in range(1, 301):
        with torch.no_grad():
            learner.theta[0].fill_(float(n))
        slow.update(learner.trf, n)
    assert 260 < first_weight(slow) < 280  # weights grow as n^8: mean 9/10 of the way


def test_while_theta_rests_the_mean_is_the_field():
    learner = a_learner(dataclasses.replace(ALL, lr=5.0), sentences(300)[0])
    run(learner, 10)
    assert learner.mean is not None
    assert torch.equal(learner.mean.trf.zeta, learner.trf.zeta)
    run(learner, 12)
    assert not torch.equal(learner.mean.trf.zeta, learner.trf.zeta)
    assert learner.model.trf is learner.mean.trf


def test_mu_learns_from_data_and_chains_in_proportion():
    """With a plain step in place of Adam: the gradient is the mixture's."""
    data, _ = sentences(300)
    learner = a_learner(dataclasses.replace(ALL, adam_proposal=False, clip_proposal=1e9, data_proposal=0.25), data)
    before = [p.detach().clone() for p in learner.proposal.parameters()]
    log_q = 0.75 * learner.proposal.log_q(learner.chains).mean() + 0.25 * learner.proposal.log_q(data).mean()
    gradient = torch.autograd.grad(log_q, list(learner.proposal.parameters()))
    learner._update_mu(data, rng())
    for parameter, old, g in zip(learner.proposal.parameters(), before, gradient, strict=True):
        torch.testing.assert_close(parameter.detach(), old + learner.config.lr_proposal * g, rtol=1e-4, atol=1e-6)


def test_a_proposal_that_falls_behind_is_refreshed():
    """Far off at first, and the field rests: with more steps of mu its moves are accepted sooner."""
    accepted = {}
    for below in (0.0, 0.95):
        config = dataclasses.replace(ALL, refresh_below=below, refresh_steps=10, zeta_follows=False)
        learner = a_learner(config, sentences(300)[0])
        with torch.no_grad():
            for parameter in learner.proposal.parameters():
                parameter.mul_(8)
        shares = [learner.update(learner.batches.of_step(n), rng(n))["move_acceptance"] for n in range(12)]
        accepted[below] = sum(shares[6:]) / 6
    assert accepted[0.95] > accepted[0.0] + 0.05, accepted


def test_a_proposal_that_keeps_up_is_left_alone():
    learners = [a_learner(dataclasses.replace(ALL, refresh_below=below), sentences(300)[0]) for below in (0.0, 0.01)]
    for learner in learners:
        learner.update(learner.batches.of_step(0), rng(0))
    for one, other in zip(*(learner.proposal.parameters() for learner in learners), strict=True):
        assert torch.equal(one, other)
    assert learners[0].move_acceptance > 0.01


def test_zeta_moves_by_the_expected_share():
    learner = a_learner(dataclasses.replace(ALL, zeta_smooth=0.0, zeta_first_stage=0), sentences(300)[0])
    learner.t = 4
    before, share = learner.trf.zeta.clone(), torch.tensor([0, 0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    learner._update_zeta(torch.tensor([1, 1, 1]), MoveInfo(3, 1, share.diag()))
    step = 4**-0.6 * share[1:] / learner.pi0[1:]
    torch.testing.assert_close(learner.trf.zeta[1:] - before[1:], step - step[0])


def test_phi_from_the_sampler_is_phi():
    learner = a_learner(ALL, sentences(300)[0])
    chains = Chains.at(learner.chains, learner.target)
    torch.testing.assert_close(learner._phi_of(chains), learner.trf.phi(learner.chains))


def test_every_option_continues_bit_for_bit(tmp_path):
    data, _ = sentences(300)
    config = dataclasses.replace(ALL, batch=30, chains=20, lr=5.0, calibration_steps=1)
    check_learner(lambda: a_learner(config, data), data, tmp_path)


NO_SENSE = [
    {"average": 1.0},
    {"epsilon": 0.0},
    {"momentum": 1.0},
    {"window": -1},
    {"warm_up": -1},
    {"data_proposal": 1.5},
    {"refresh_below": 1.0},
    {"refresh_steps": 0},
    {"burn_in": -1},
    {"hold_lengths": True},  # and lengths are counted
]


@pytest.mark.parametrize("wrong", NO_SENSE, ids=lambda wrong: next(iter(wrong)))
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        dataclasses.replace(ALL, **wrong)
