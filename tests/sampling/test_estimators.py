"""Every estimator on every potential: unbiased forward, its inverse unbiased backward, better with more work.

Tolerances are five standard errors of the mean of 1500 estimates; each test also asks that this is small, so that it can fail.
"""

import pytest
import torch
from enumerable import LONGEST, POTENTIALS, Bigrams, V, exact_samples, field, problem
from harness import rng

from trflm.lms.unigram import Unigram
from trflm.potentials.cnn.model import CNN
from trflm.sampling.ais import AISConfig
from trflm.sampling.bridge import FORWARD, REVERSED, Points, sweep
from trflm.sampling.estimator import Problem, same_length
from trflm.sampling.guide import guide_of
from trflm.sampling.importance import ImportanceConfig, trusted
from trflm.sampling.smc import SMCConfig
from trflm.sampling.weights import conditional_share, effective_size, log_mean, next_temperature, stretched

pytestmark = pytest.mark.filterwarnings("ignore:the .-grams of this text")

R = 1500
SMALL = {
    "is": ImportanceConfig(size=6),
    "ais": AISConfig(size=2, share=0.8, block=2, trials=2, pilots=2),
    "smc": SMCConfig(size=6, temper=0.6, resample=0.7),
}


def ratios(name: str, config, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """[R] Zhat / Z forward and Z / Zhat backward."""
    given, exact = problem(name)
    estimator = config.build(given).prepare(rng(seed), [2, LONGEST])
    forward = estimator.forward(rng(seed + 1), LONGEST, R)
    samples = exact_samples(exact, LONGEST, R, rng(seed + 2))
    backward_R = estimator.backward(rng(seed + 3), samples, forward)
    return (forward.log_Z_R - exact.log_Z[LONGEST]).exp(), (exact.log_Z[LONGEST] - backward_R).exp()


def check_mean_is_one(ratio_R: torch.Tensor) -> None:
    error = float(ratio_R.std()) / len(ratio_R) ** 0.5
    assert 0.001 < error < 0.06
    assert abs(float(ratio_R.mean()) - 1) < 5 * error


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("name", POTENTIALS)
def test_unbiased_both_ways(name, kind):
    for ratio_R in ratios(name, SMALL[kind]):
        check_mean_is_one(ratio_R)


@pytest.mark.parametrize("kind", SMALL)
def test_more_work_brings_both_ends_together(kind):
    few, many = SMALL[kind], type(SMALL[kind])(**{**vars(SMALL[kind]), "size": 8 * SMALL[kind].size})
    gaps = [
        -(forward_R.log().mean() + backward_R.log().mean())
        for forward_R, backward_R in (ratios("cnn", few), ratios("cnn", many))
    ]
    assert 0 < float(gaps[1]) < float(gaps[0]) / 3


def test_the_reverse_of_a_sweep_sweeps_from_right_to_left():
    """p(x) T(x, y) = p(y) T~(y, x), by 20,000 steps over 9 x 9 pairs (sampling alone: a total variation of 0.025). Two
    words that like to be equal: from left to right the second follows the first, so a step there and one back look
    different."""
    trf, exact = field(Bigrams(2.0 * torch.eye(V)))
    given = Problem(trf, Unigram(trf.vocab, trf.pi, torch.tensor([0.2, 0.3, 0.5]).log()))

    def flow(direction: int) -> torch.Tensor:
        start = exact_samples(exact, 2, 20_000, rng(direction + 5))
        points, _ = sweep(rng(direction + 9), Points.at(start, given), given, 1.0, 1, 6, direction)
        before, after = (3 * words[:, 0] + words[:, 1] for words in (start.ids_N.view(-1, 2), points.words_CL))
        return torch.bincount(9 * before + after, minlength=81).view(9, 9) / len(before)

    there, back = flow(FORWARD), flow(REVERSED)
    assert float((there - back.t()).abs().sum()) / 2 < 0.035
    assert float((there - there.t()).abs().sum()) / 2 > 0.07


def test_sums_of_bigrams_by_dynamic_programming():
    potential = Bigrams(torch.randn(V, V, generator=rng(6)))
    torch.testing.assert_close(potential.log_Z(LONGEST), field(potential)[1].log_Z)


@pytest.mark.parametrize("direction", [FORWARD, REVERSED])
@pytest.mark.parametrize("b", [0.0, 0.6, 1.0])
def test_a_sweep_leaves_its_distribution_as_it_is(b, direction):
    """From 6000 exact samples of p_b over 243 sentences, one sweep: the total variation stays that of sampling (about 0.06)."""
    given, exact = problem("blstm")
    at = (exact.batch.lengths_B == LONGEST).nonzero().squeeze(1)
    everything = exact.batch.select(at)
    p = ((1 - b) * given.log_q(everything) + b * exact.phi_S[at]).softmax(0)
    start = everything.select(torch.multinomial(p, 6000, True, generator=rng(1)))
    points, info = sweep(rng(2), Points.at(start, given), given, b, 2, 3, direction)
    assert 0.2 < info.accepted / info.tried < 1
    fresh = Points.at(same_length(points.words_CL), given)
    torch.testing.assert_close(points.phi_C, fresh.phi_C)
    torch.testing.assert_close(points.log_q_C, fresh.log_q_C)
    number = (points.words_CL * 3 ** torch.arange(LONGEST - 1, -1, -1)).sum(1)
    found = torch.bincount(number, minlength=len(p)) / len(number)
    assert float((found - p).abs().sum()) / 2 < 0.09


@pytest.mark.parametrize("name", POTENTIALS)
def test_the_guide_reads_on_as_it_would_from_the_beginning(name):
    """Selected states go on as those of the selected prefixes."""
    given, exact = problem(name)
    words = exact.batch.select((exact.batch.lengths_B == LONGEST).nonzero().squeeze(1)).ids_N.view(-1, LONGEST)
    guide = guide_of(given.trf.potential)
    index = torch.tensor([5, 77, 77, 242])
    state, other = guide.start(len(words)), guide.start(len(index))
    for t in range(2):
        state, _ = guide.step(state, words[:, : t + 1])
        other, _ = guide.step(other, words[index, : t + 1])
    state = state.select(index)
    for t in range(2, LONGEST):
        state, known = guide.step(state, words[index, : t + 1])
        other, expected = guide.step(other, words[index, : t + 1])
        torch.testing.assert_close(known, expected)


def test_the_cnn_guide_knows_the_positions_whose_windows_are_complete():
    given, exact = problem("cnn")
    guide = guide_of(given.trf.potential)
    assert guide.lag == 3
    batch = exact.batch.select((exact.batch.lengths_B == LONGEST).nonzero().squeeze(1))
    words, state = batch.ids_N.view(-1, LONGEST), guide.start(len(batch))
    cnn = given.trf.potential
    assert isinstance(cnn, CNN)
    constant = cnn.constant
    parts = cnn.contributions(batch).view(-1, LONGEST).detach() - constant.detach() / LONGEST
    for t in range(LONGEST):
        state, known = guide.step(state, words[:, : t + 1])
        torch.testing.assert_close(known, parts[:, : max(t + 1 - guide.lag, 0)].sum(1) + constant.detach())


def test_smc_resamples_and_chooses_its_temper():
    given, _ = problem("blstm")
    estimator = SMCConfig(size=50, pilot_particles=50, pilot_runs=20).build(given).prepare(rng(1), [3, LONGEST])
    assert estimator.b > 0
    assert f"{estimator.b:g}" in estimator.describe()


def test_ais_places_its_temperatures():
    given, _ = problem("cnn")
    estimator = AISConfig(share=0.97, pilots=2).build(given).prepare(rng(1), [1, 2, 3, LONGEST])
    assert sorted(estimator.courses) == [2, LONGEST]
    for length in range(1, LONGEST + 1):
        b = estimator.course(length)
        assert (float(b[0]), float(b[-1])) == (0, 1)
        assert bool((b.diff() > 0).all())
    assert len(estimator.course(LONGEST)) > len(estimator.course(2)) >= len(estimator.course(1))


def test_weights():
    log_w = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, -50.0, -50.0, -50.0]], dtype=torch.float64) + 700
    torch.testing.assert_close(effective_size(log_w), torch.tensor([4.0, 1.0], dtype=torch.float64))
    torch.testing.assert_close(log_mean(log_w)[0], torch.tensor(700.0, dtype=torch.float64))
    score = torch.linspace(-3, 3, 100, dtype=torch.float64)
    even = torch.zeros(100, dtype=torch.float64)
    b = next_temperature(even, score, 0.2, 0.9)
    assert conditional_share(even, (b - 0.2) * score) == pytest.approx(0.9, abs=1e-6)
    assert next_temperature(even, 1e-3 * score, 0.2, 0.9) == 1
    course = torch.tensor([0.0, 0.1, 0.3, 1.0], dtype=torch.float64)
    torch.testing.assert_close(stretched(course, 3), course)
    torch.testing.assert_close(stretched(course, 6)[::2], course)
    torch.testing.assert_close(stretched(course, 1), course[[0, -1]])


def test_importance_sampling_is_trusted_while_many_weights_carry_it():
    given, _ = problem("cnn")
    assert trusted(ImportanceConfig(size=2000).build(given).forward(rng(1), 2, 2))
    assert not trusted(ImportanceConfig(size=10).build(given).forward(rng(1), 2, 2))
