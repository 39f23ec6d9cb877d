"""AugSA + JSA on a language small enough to enumerate."""

import copy
import dataclasses
from collections.abc import Sequence
from typing import cast

import pytest
import torch
from harness import random_pi, rng, sentence_numbers, tiny_vocab

from trflm.errors import TrainingError
from trflm.field.trf import TRF
from trflm.learning.augsa import AugSA, AugSAConfig
from trflm.learning.batches import ShuffledBatches
from trflm.learning.loop import training
from trflm.lms.proposals.lstm import LSTMProposal, LSTMProposalConfig
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.potentials.protocol import Potential
from trflm.sampling.chains import Chains
from trflm.sampling.exact import Exact, all_sentences, log_likelihood
from trflm.sampling.mixture import trans_ms
from trflm.seeds import generator
from trflm.text import Batch, empirical_pi, training_pi0
from trflm.text.lengths import draw_from_cdf

V, M = 3, 3
TINY = CNNConfig(embedding=6, projection=6, bank_width=3, bank_filters=6, stack_layers=2, stack_filters=6, init=0.5)
CONFIG = AugSAConfig(
    batch=200, chains=200, jump_range=2, block=2, trials=3, lr=0.02, lr_delay=0, zeta_decay=0.6, lr_proposal=0.2
)  # fmt: skip


def a_learner(config: AugSAConfig, data: Batch, seed: int = 1) -> AugSA:
    pi = empirical_pi(data.lengths_B)
    trf = TRF(tiny_vocab(V), CNN(TINY, V, rng(1)), pi)
    proposal = LSTMProposal(LSTMProposalConfig(units=8, init=0.3), V, torch.tensor([0, 1, 1]), rng(2))
    return AugSA(trf, proposal, training_pi0(pi), ShuffledBatches(data, config.batch, seed), config, rng(3))


def sentences(n: int) -> tuple[Batch, torch.Tensor]:
    """n draws from a random distribution over all sentences, and their shares."""
    batch = all_sentences(V, M)
    weights = torch.rand(len(batch), generator=rng(7), dtype=torch.float64) ** 3
    weights *= random_pi(M)[batch.lengths_B] / V**batch.lengths_B
    data = batch.select(draw_from_cdf(weights.cumsum(0), n, rng(8)))
    return data, torch.bincount(sentence_numbers(data, V), minlength=len(batch)).double() / n


def test_with_theta_frozen_zeta_reaches_the_exact_log_Z_ratios():
    data, _ = sentences(2000)
    learner = a_learner(dataclasses.replace(CONFIG, chains=600, lr=0.0, zeta_decay=0.8), data)
    learner.trf.zeta.copy_(torch.tensor([0.0, 0, 3, 1]))  # far off
    for _ in training(learner, None, epochs=40, seed=1):
        pass
    with torch.no_grad():
        zeta = Exact.of(learner.trf.potential, V, M).zeta
    assert float((learner.trf.zeta - zeta).abs().max()) < 0.05
    assert learner.trf.zeta[1] == 0


def mean_of(potentials: Sequence[Potential]) -> Potential:
    """phi averaged over snapshots, as a trained model scores."""
    return cast("Potential", lambda batch: torch.stack([phi(batch) for phi in potentials]).mean(0))


def test_with_theta_free_the_divergence_from_data_falls_to_the_best_there_is():
    data, data_S = sentences(2000)
    pi = empirical_pi(data.lengths_B)
    learner = a_learner(dataclasses.replace(CONFIG, chains=500, lr=5.0, lr_delay=300.0), data)

    best = copy.deepcopy(learner.trf.potential)  # exact gradient ascent from the same start
    optimiser = torch.optim.Adam(best.parameters(), lr=0.01)
    for _ in range(1200):
        optimiser.zero_grad()
        (-log_likelihood(best, V, data_S, pi)).backward()
        optimiser.step()

    with torch.no_grad():
        before = float(log_likelihood(learner.trf.potential, V, data_S, pi))
        most = float(log_likelihood(best, V, data_S, pi))
    moments = training(learner, None, epochs=50, seed=1)
    snapshots = [copy.deepcopy(learner.trf.potential) for moment in moments if moment.epoch in range(41, 51)]
    with torch.no_grad():
        after = float(log_likelihood(mean_of(snapshots), V, data_S, pi))
    assert most - before > 0.2
    assert most - after < 0.02


def test_theta_gradient_is_the_papers():
    """One step of plain SGD in place of Adam moves theta by the formula, computed sentence by sentence."""
    data, _ = sentences(40)
    pi = empirical_pi(data.lengths_B)
    learner = a_learner(dataclasses.replace(CONFIG, chains=30), data)
    learner.adam = torch.optim.SGD(learner.theta, lr=0.0)  # type: ignore[assignment]
    before = [p.detach().clone() for p in learner.theta]
    learner.update(data, generator(1, "step", 1))
    expected = [torch.zeros_like(p) for p in before]
    with torch.no_grad():
        moved = [p.clone() for p in learner.theta]
        for p, old in zip(learner.theta, before, strict=True):
            p.copy_(old)

    def add(batch: Batch, weight_B: torch.Tensor) -> None:
        for b in range(len(batch)):
            phi = learner.trf.potential(batch.select(torch.tensor([b]))).sum()
            for total, g in zip(expected, torch.autograd.grad(phi, learner.theta), strict=True):
                total += float(weight_B[b]) * g

    add(data, torch.full((len(data),), 1 / len(data)))
    add(learner.chains, -(pi / learner.pi0)[learner.chains.lengths_B] / len(learner.chains))
    lr = learner.config.lr / (1 + learner.config.lr_delay)
    for after, old, g in zip(moved, before, expected, strict=True):
        torch.testing.assert_close(after, old + lr * g, rtol=1e-4, atol=1e-6)


def test_zeta_that_follows_moves_with_log_Z():
    """One large step of theta: zeta goes most of the way that the exact log Z ratios go."""
    data, _ = sentences(400)
    learner = a_learner(dataclasses.replace(CONFIG, chains=2000, lr=0.2, zeta_follows=True), data)
    with torch.no_grad():
        learner.trf.zeta.copy_(Exact.of(learner.trf.potential, V, M).zeta)
        for step in range(5):  # chains that follow the field
            learner.chains = trans_ms(rng(step), Chains(learner.chains), learner.target, learner.proposal, CONFIG)[0].batch
    before = learner.trf.zeta.clone()
    learner.t = 1
    learner._update_theta(data, rng(9), Chains(learner.chains))
    with torch.no_grad():
        exact = Exact.of(learner.trf.potential, V, M).zeta
    assert float((exact - before).abs().max()) > 0.3
    assert float((exact - learner.trf.zeta).abs().max()) < 0.3 * float((exact - before).abs().max())


def test_zeta_step_is_the_papers_with_a_cap():
    learner = a_learner(dataclasses.replace(CONFIG, zeta_decay=0.5, zeta_cap=0.8), sentences(400)[0])
    learner.t = 4
    before = learner.trf.zeta.clone()
    learner._update_zeta(torch.tensor([1, 1, 3, 3, 3, 3, 3, 3]))
    pi0 = learner.pi0
    raw = torch.tensor([0.25 / pi0[1], 0.0, 0.75 / pi0[3]], dtype=torch.float64) * 0.5  # gamma = 4^-0.5
    step = raw.clamp(max=0.8)
    assert float(raw.min()) < 0.8 < float(raw.max())
    torch.testing.assert_close(learner.trf.zeta[1:] - before[1:], step - step[0])


def test_state_continues_bit_for_bit():
    data, _ = sentences(400)
    whole, first, second = (a_learner(CONFIG, data, seed=5) for _ in range(3))
    rows = [m.metrics for m in training(whole, data, epochs=6, seed=5)]
    for moment in training(first, data, epochs=6, seed=5):
        if moment.step == 7:
            break
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert [m.metrics for m in training(second, data, epochs=6, seed=5, steps_done=7)] == rows[7:]
    for a, b in zip(whole.theta, second.theta, strict=True):
        assert torch.equal(a, b)


def test_a_stuck_sampler_and_a_runaway_zeta_stop_with_advice():
    data, _ = sentences(400)
    learner = a_learner(CONFIG, data)
    learner.stuck_moves = 100
    with pytest.raises(TrainingError, match=r"stuck.*lower learner\.lr"):
        learner._watch()
    learner = a_learner(CONFIG, data)
    learner.trf.zeta[3] = 1e4
    with pytest.raises(TrainingError, match="zeta runs away"):
        learner.update(data, rng())


@pytest.mark.parametrize("able", [True, False])
def test_sampler_and_gradient_are_in_bf16(able, monkeypatch):
    """Where the CPU can: moves score and the gradient is taken in bf16; what comes after them (log Z_1, dev text) is not."""
    data, seen = sentences(300)[0], []

    def watched(rng, chains, target, proposal, config):
        seen.append((cnn.score_in_bf16, cnn.train_in_bf16))
        return trans_ms(rng, chains, target, proposal, config)

    def watched_forward(batch, rng=None):
        seen.append((cnn.score_in_bf16, cnn.train_in_bf16))
        return forward(batch, rng)

    monkeypatch.setattr("trflm.learning.augsa.trans_ms", watched)
    monkeypatch.setattr("trflm.learning.augsa.has_bf16", lambda: able)
    learner = a_learner(dataclasses.replace(CONFIG, bf16=True), data)
    cnn = cast(CNN, learner.trf.potential)
    forward = cnn.forward
    monkeypatch.setattr(cnn, "forward", watched_forward)
    learner.update(data, rng(1))
    assert seen == [(able, False), (False, able)]
    assert not cnn.score_in_bf16
    assert not cnn.train_in_bf16
