import math

import torch
from harness import random_pi, rng, tiny_vocab

from trflm.learning.batches import ShuffledBatches
from trflm.learning.loop import training
from trflm.learning.nce import NCE, NCEConfig
from trflm.lms.unigram import Unigram
from trflm.potentials.cnn import CNN, CNNConfig
from trflm.sampling.exact import Exact, all_sentences
from trflm.text import Batch, empirical_pi
from trflm.text.lengths import draw_from_cdf
from trflm.trf import TRF

V, M = 3, 3
TINY = CNNConfig(embedding=8, projection=8, bank_width=3, bank_filters=8, stack_layers=2, stack_filters=8, init=0.5)


def data_sentences(n: int) -> Batch:
    """Draws from a random distribution over all sentences: nothing the noise could guess."""
    batch = all_sentences(V, M)
    weights = (
        torch.rand(len(batch), generator=rng(7), dtype=torch.float64) ** 3 * random_pi(M)[batch.lengths_B] / V**batch.lengths_B
    )
    return batch.select(draw_from_cdf(weights.cumsum(0), n, rng(8)))


def shares(data: Batch) -> torch.Tensor:
    """[S] the empirical distribution over all sentences."""
    number = {x: s for s, x in enumerate(tiny_vocab(V).sentences(all_sentences(V, M)))}
    rows = torch.tensor([number[x] for x in tiny_vocab(V).sentences(data)])
    return torch.bincount(rows, minlength=len(number)).double() / len(data)


def test_learns_the_data_distribution_and_log_Z():
    data = data_sentences(4000)
    pi = empirical_pi(data.lengths_B)
    trf = TRF(tiny_vocab(V), CNN(TINY, V, rng(1)), pi)
    config = NCEConfig(batch=400, noise_ratio=4, lr=1e-2, lr_log_Z=3e-2)
    learner = NCE(trf, Unigram.estimate(trf.vocab, data, pi), ShuffledBatches(data, 400, seed=1), config)
    data_S = shares(data)

    def divergence() -> float:
        """KL(data || p), p normalised exactly."""
        with torch.no_grad():
            log_p_S = Exact.of(trf.potential, V, M).log_prob(pi)
        return float(torch.special.xlogy(data_S, data_S).sum() - (data_S * log_p_S).sum())

    before = divergence()
    for _ in training(learner, None, epochs=80, seed=1):
        pass
    assert before > 0.3
    assert divergence() < 0.02  # 39 sentences from 4000 draws; the learner's own noise is about 0.005
    with torch.no_grad():
        log_Z = Exact.of(trf.potential, V, M).log_Z[1:]
    assert float((learner.log_Z.detach()[1:] - log_Z).abs().max()) < 0.1
    learner.write_zeta()
    assert trf.zeta[1] == 0
    torch.testing.assert_close(trf.log_Z1() + trf.zeta[2:], learner.log_Z.detach()[2:])


def test_loss_at_the_truth_is_known():
    """With p = q and nu = 1 nothing can be told apart: the loss is 2 log 2."""
    data = data_sentences(500)
    pi = random_pi(M)
    vocab = tiny_vocab(V)
    noise = Unigram(vocab, pi, torch.full((V,), -math.log(V)))
    trf = TRF(vocab, CNN(TINY, V, rng(1)), pi)
    with torch.no_grad():
        for parameter in trf.potential.parameters():
            parameter.zero_()
    learner = NCE(trf, noise, ShuffledBatches(data, 100, seed=1), NCEConfig(noise_ratio=1))
    loss, _ = learner.loss(data, torch.zeros(len(data)), len(data) // 2)
    assert math.isclose(float(loss.detach()), 2 * math.log(2), rel_tol=1e-9)


def test_unigram_draws_what_it_says():
    """100,000 draws: a share's standard error is at most 0.0016, so 0.008 is five of them."""
    vocab, pi = tiny_vocab(V), random_pi(M)
    noise = Unigram(vocab, pi, torch.tensor([0.2, 0.5, 0.3]).log())
    drawn = shares(noise.draw(100_000, rng(3)))
    expected = noise.log_prob(all_sentences(V, M)).exp()
    assert abs(float(expected.sum()) - 1) < 1e-6
    assert float((drawn - expected).abs().max()) < 0.008
