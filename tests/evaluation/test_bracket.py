"""The bounds against the truth by enumeration: their coverage in 200 seeded runs, for every potential and every estimator."""

import math

import pytest
import torch
from enumerable import LONGEST, POTENTIALS, exact_samples, problem
from harness import random_batch, rng

from trflm.evaluation.bracket import Bracket, burnt_in, length_counts
from trflm.sampling import ais
from trflm.sampling.ais import AISConfig
from trflm.sampling.estimator import Estimates
from trflm.sampling.importance import ImportanceConfig
from trflm.sampling.smc import SMCConfig

pytestmark = pytest.mark.filterwarnings("ignore:the .-grams of this text")

SEEDED_RUNS, ROUNDS = 200, 3
TEXT = random_batch(3, [1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5] * 3)
SMALL = {
    "smc": SMCConfig(size=4, temper=0.6, resample=0.7),
    "ais": AISConfig(size=2, share=0.8, block=2, trials=2, pilots=2),
    "is": ImportanceConfig(size=4),
}


class Dealt:
    """The estimates of all 200 runs are made at once and dealt out to their brackets, as an estimator would make them."""

    size = 1

    def __init__(self, estimator, exact, runs: dict[int, int], seed: int) -> None:
        self.forward_of, self.backward_of = {}, {}
        for length, n in runs.items():
            total = n * ROUNDS * SEEDED_RUNS
            found = estimator.forward(rng(seed), length, total)
            samples = exact_samples(exact, length, total, rng(seed + 1))
            self.forward_of[length] = iter(found.log_Z_R.split(n))
            self.backward_of[length] = iter(estimator.backward(rng(seed + 2), samples, found).split(n))

    def prepare(self, rng, lengths) -> "Dealt":
        return self

    def sized(self, size: int) -> "Dealt":
        return self

    def describe(self) -> str:
        return "dealt out"

    def forward(self, rng, length: int, n: int) -> Estimates:
        log_Z_R = next(self.forward_of[length])
        assert len(log_Z_R) == n
        return Estimates(log_Z_R, log_Z_R[:, None], random_batch(3, [length] * n))

    def backward(self, rng, samples, forward) -> torch.Tensor:
        return next(self.backward_of[int(samples.lengths_B[0])])


def misses(name: str, config) -> tuple[int, int, float]:
    """In how many of 200 runs the truth is below the lower or above the upper end, and the mean distance of the ends."""
    given, exact = problem(name)
    first = Bracket(given, length_counts(TEXT), most_enumerated=0)
    assert set(first.enumerated) == {1}
    estimator = config.build(given).prepare(rng(1), list(first.runs))
    dealt = Dealt(estimator, exact, first.runs, seed=10)
    truth = sum(n * float(exact.log_Z[length]) for length, n in first.counts.items())
    below = above = 0
    width = 0.0
    for _ in range(SEEDED_RUNS):
        bracket = Bracket(given, length_counts(TEXT), most_enumerated=0)
        for _ in range(ROUNDS):
            bracket.advance(rng(0), dealt, 1, lambda _, found: [estimates.drawn for estimates in found])
        low, high = bracket.bounds()
        below, above, width = below + (truth < low), above + (truth > high), width + high - low
    return below, above, width / SEEDED_RUNS


@pytest.mark.parametrize("name", POTENTIALS)
def test_each_end_is_right_in_95_percent_of_200_runs(name):
    below, above, width = misses(name, SMALL["smc"])
    print(f"{name}: of {SEEDED_RUNS} runs {below} had the lower end above the truth, {above} the upper end below it")
    assert below <= 0.05 * SEEDED_RUNS
    assert above <= 0.05 * SEEDED_RUNS
    assert 0 < width < 40


@pytest.mark.parametrize("kind", ["ais", "is"])
def test_and_for_every_estimator(kind):
    below, above, _ = misses("cnn", SMALL[kind])
    assert max(below, above) <= 0.05 * SEEDED_RUNS


def test_a_broken_weight_is_found_out(monkeypatch):
    """Annealing that weighs a sentence after its move instead of before: the lower end then fails in most runs."""
    config = AISConfig(size=2, share=0.6, block=2, trials=3, pilots=1)
    assert misses("blstm", config)[0] <= 0.05 * SEEDED_RUNS

    def broken(rng, points, problem, b, block, trials, direction=1):
        log_w_C = torch.zeros_like(points.phi_C)
        for k in range(len(b) - 1)[::direction]:
            points, _ = ais.sweep(rng, points, problem, float(b[k + 1] if direction == 1 else b[k]), block, trials, direction)
            log_w_C = log_w_C + (b[k + 1] - b[k]) * points.score_C
        return points, log_w_C

    monkeypatch.setattr(ais, "anneal", broken)
    assert misses("blstm", config)[0] > 0.5 * SEEDED_RUNS


def test_the_interval_narrows_with_work_and_holds_the_truth():
    given, exact = problem("blstm")
    bracket, source = Bracket(given, length_counts(TEXT), most_enumerated=0), rng(3)
    truth = sum(n * float(exact.log_Z[length]) for length, n in bracket.counts.items())
    estimator = SMCConfig(temper=0.6).build(given)
    samples = burnt_in(given, sweeps=5, block=2, trials=5)
    assert bracket.bounds() == (-math.inf, math.inf)
    widths = []
    for size in (10, 40, 160, 640):
        bracket.advance(source, estimator, size, samples)
        low, high = bracket.bounds()
        assert low < truth < high
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < widths[0] / 2.5
    for length, value in bracket.estimate().items():
        assert value == pytest.approx(float(exact.log_Z[length]), abs=0.05)


def test_a_round_that_was_too_small_is_left_out():
    """With a first round far off, the bound of the later ones alone is better; it costs log 2 more."""
    given, _ = problem("cnn")
    bracket = Bracket(given, length_counts(TEXT), most_enumerated=0)
    estimator, samples = SMCConfig(temper=0.5).build(given), burnt_in(given, 0, 1, 1)
    for _ in range(3):
        bracket.advance(rng(1), estimator, 50, samples)
    without = [round_.forward for round_ in bracket.rounds[1:]]
    bracket.rounds[0] = type(bracket.rounds[0])(50, -1e6, 1e6, bracket.rounds[0].log_Z)
    expected = sum(without) / 2 - bracket.unit * (math.log(20) + 2 * math.log(2)) / 2
    assert bracket.bounds()[0] == pytest.approx(expected)


def test_every_length_short_enough_is_summed_over():
    given, exact = problem("cnn")
    bracket = Bracket(given, length_counts(TEXT))
    assert bracket.is_exact
    low, high = bracket.bounds()
    assert low == high == pytest.approx(float(exact.log_Z[TEXT.lengths_B].sum()))


def test_work_follows_the_text():
    """A length gets estimates by its share of the sentences; u bounds what one of them counts for."""
    given, _ = problem("cnn")
    text = random_batch(3, [3] * 80 + [LONGEST] * 3)
    bracket = Bracket(given, length_counts(text), most_enumerated=0)
    assert bracket.runs == {3: 27, LONGEST: 1}
    assert bracket.unit == pytest.approx(max(80 / 27, 3))
