"""How noisy the gradient of AugSA is, option by option, and what a step costs.

Every variant sees the same sentences of data and the same chains of the same field at rest; a round has data and chains of its
own, so that rounds are independent. Noise is the trace of the covariance of theta's gradient over the rounds. Twice the noise
needs twice the steps, so `noise x time` compares variants at equal cost. For zeta the noise is sum_l var(delta_l) / pi0_l.

A step goes along P g, P diagonal: 1 for plain descent, 1 / (sqrt(v) + epsilon) for Adam with v the mean of g^2 over the rounds.
The mean gradients of two halves of the rounds share no noise, so g_1 . P g_2 is what steps gain to first order, and beside it
stand what noise adds, the trace of P^(1/2) C P^(1/2) (C the covariance of g), and its greatest eigenvalue: chains lag behind
theta, and phi swings along the direction in which it varies most, unless steps are short enough for that one.

    python benchmarks/augsa_noise.py --data DIR --init RUN      RUN: a field of the shape of recipes/ptb/neural-trf.toml

Without them a small CNN is first taught the text of recipes/tiny by cloze.
"""

import argparse
import dataclasses
import statistics
import tempfile
from pathlib import Path

import torch
from measure import arguments, clock, report

from trflm.experiment.progress import Quiet
from trflm.experiment.recipe import FieldRecipe, read_recipe
from trflm.experiment.run import run_recipe
from trflm.learning.augsa import AugSA, AugSAConfig
from trflm.sampling.chains import Chains
from trflm.sampling.mixture import trans_ms
from trflm.text import Batch

RECIPES = Path(__file__).parents[1] / "recipes"
SMALL = ["model.embedding=32", "model.projection=32", "model.bank_width=4", "model.bank_filters=32", "model.stack_filters=32"]
BURN_IN = 5
RULES = {"plain descent": None, "Adam, epsilon 0.03": 0.03, "Adam, epsilon 1e-3": 1e-3, "Adam, epsilon 1e-8": 1e-8}
STEADY = "300, 300, balanced, weighed"  # the variant whose gradients the rules are compared on

PLAIN = {"window": 0, "balance_lengths": False, "weigh_trials": False}
VARIANTS = {
    "1000 data, 100 chains (the paper)": {"batch": 1000, "chains": 100},
    "300 data, 100 chains": {"batch": 300, "chains": 100},
    "300 data, 300 chains": {"batch": 300, "chains": 300},
    "300, 300, lengths balanced": {"batch": 300, "chains": 300, "balance_lengths": True},
    "300, 300, all trials weighed": {"batch": 300, "chains": 300, "weigh_trials": True},
    "300, 300, balanced, weighed": {"batch": 300, "chains": 300, "balance_lengths": True, "weigh_trials": True},
    "300, 300, balanced, window jump": {"batch": 300, "chains": 300, "balance_lengths": True, "window": 11},
}


def with_init(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--init", type=Path, metavar="RUN", help="the field; else a small one is taught first")
    parser.add_argument("--rounds", type=int, default=10)


def recipe_for(parsed: argparse.Namespace, scratch: Path) -> FieldRecipe:
    """The recipe of the paper's CNN from a given field, or from a small one that is made here."""
    if parsed.init:
        data = [f"data.train={parsed.data}/train.txt.gz", f"data.valid={parsed.data}/valid.txt.gz"]
        sets = [*data, f"run.init={parsed.init}"]
    else:
        sets = [f"data.train={RECIPES}/tiny/train.txt", f"data.valid={RECIPES}/tiny/valid.txt", *SMALL]
        few = ["model.word2vec=false", "run.epochs=8", "learner.batch=50", "learner.lr_epochs=8", "learner.warm_up=20"]
        run_recipe(read_recipe(RECIPES / "ptb/trf-cloze.toml", [*sets, *few]), scratch / "cloze", False, Quiet())
        sets += [f"run.init={scratch / 'cloze'}", "proposal.units=32", "learner.zeta_draws=128"]
    recipe = read_recipe(RECIPES / "ptb/neural-trf.toml", [*sets, "model.word2vec=false"])
    assert isinstance(recipe, FieldRecipe)
    return recipe


def at_rest(learner: AugSA, **changes: object) -> AugSA:
    """A learner of the same field and proposal whose steps change neither, nor zeta."""
    rest = {"lr": 0.0, "lr_proposal": 0.0, "adam_proposal": False, "average": 0.0, "zeta_follows": False}
    config = dataclasses.replace(learner.config, **{**PLAIN, **rest, **changes})
    twin = AugSA(learner.trf, learner.proposal, learner.pi0, learner.batches, config, torch.Generator().manual_seed(0))
    twin.t = 10**12
    return twin


def gradient(learner: AugSA) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in learner.theta if p.grad is not None])


class Noise:
    """The trace of a covariance, from vectors that are not kept."""

    def __init__(self) -> None:
        self.n, self.sum, self.squares = 0, torch.zeros(()), 0.0

    def add(self, value: torch.Tensor) -> None:
        self.n, self.sum, self.squares = (
            self.n + 1,
            self.sum + value.double(),
            self.squares + float(value.double().square().sum()),
        )

    @property
    def trace(self) -> float:
        return (self.squares - float(self.sum.square().sum()) / self.n) / (self.n - 1)


def main() -> None:
    parsed = arguments(__doc__ or "", with_init)
    rounds = 4 if parsed.quick else parsed.rounds
    with tempfile.TemporaryDirectory() as scratch:
        recipe = recipe_for(parsed, Path(scratch))
        data = recipe.data.read()
        assert isinstance(recipe.learner, AugSAConfig)
        settings = {"chains": 300 * rounds, "chains_at_data": True, "burn_in": BURN_IN, "dev_choice": False}
        learner = dataclasses.replace(recipe, learner=dataclasses.replace(recipe.learner, **settings)).build(data, fresh=True)
    assert isinstance(learner, AugSA)
    pool, text = learner.chains.select(torch.randperm(300 * rounds)), data.train.sentences
    order = torch.randperm(len(text), generator=torch.Generator().manual_seed(1))
    learners = {name: at_rest(learner, **changes) for name, changes in VARIANTS.items()}
    noise, seconds = {name: Noise() for name in VARIANTS}, {name: [] for name in VARIANTS}
    shares = {name: Noise() for name in ("a count", "expected of a local jump", "expected of a window jump")}
    now, weight = clock(), learner.pi0.clamp(min=1e-12).rsqrt()
    gradients = []
    for number in range(rounds):
        for name, side in learners.items():
            some = pool.select(torch.arange(side.config.chains) + 300 * number)
            side.chains = some
            size = side.config.batch
            batch = text.select(order[(torch.arange(size) + size * number) % len(text)])
            start = now()
            side.update(batch, torch.Generator().manual_seed(number))
            seconds[name].append(now() - start)
            noise[name].add(gradient(side))
            if name == STEADY:
                gradients.append(gradient(side))
        measure_lengths(learners, pool.select(torch.arange(300) + 300 * number), number, shares, weight)

    base = next(iter(VARIANTS))
    times = {name: statistics.median(values) for name, values in seconds.items()}
    print(f"{'':36s} noise  time  noise x time   (each relative to the first)")
    for name in VARIANTS:
        n, t = noise[name].trace / noise[base].trace, times[name] / times[base]
        print(f"{name:36s} {n:5.2f} {t:5.2f} {n * t:8.2f}")
    for name, found in shares.items():
        print(f"zeta by {name:28s} noise {found.trace / shares['a count'].trace:.3f}")
    print(f"{'':36s} gain / noise, gain / steepest   (each relative to the first)")
    found = {rule: merit(torch.stack(gradients), epsilon) for rule, epsilon in RULES.items()}
    plain = found["plain descent"]
    for rule, (by_noise, by_steepest) in found.items():
        print(f"{rule:36s} {by_noise / plain[0]:8.2f} {by_steepest / plain[1]:12.2f}")
    last = "300, 300, balanced, window jump"
    ratios = {
        "calm-vs-paper": noise[base].trace * times[base] / (noise[last].trace * times[last]),
        "expected-vs-count": shares["a count"].trace / shares["expected of a window jump"].trace,
        "plain-vs-adam-noise": plain[0] / found["Adam, epsilon 1e-3"][0],
        "plain-vs-adam-steepest": plain[1] / found["Adam, epsilon 1e-3"][1],
    }
    report(parsed, {"rounds": rounds, "init": str(parsed.init)}, seconds, ratios)


def merit(gradient_RP: torch.Tensor, epsilon: float | None) -> tuple[float, float]:
    """What steps by this rule gain, over the noise that they add and over their greatest curvature (all to a factor)."""
    if epsilon is not None:
        gradient_RP = gradient_RP / (gradient_RP.square().mean(0).sqrt() + epsilon).sqrt()
    first, second = (half.mean(0) for half in gradient_RP.chunk(2))
    centred_RP = gradient_RP - gradient_RP.mean(0)
    eigenvalues = torch.linalg.eigvalsh((centred_RP @ centred_RP.T).double())
    gain = float(first @ second)
    return gain / float(eigenvalues.sum()), gain / float(eigenvalues[-1])


def measure_lengths(
    learners: dict[str, AugSA], chains: Batch, seed: int, shares: dict[str, Noise], weight: torch.Tensor
) -> None:
    """delta_l / sqrt(pi0_l) of one step of the sampler, in three ways."""
    for name, side in (("local", learners["300 data, 300 chains"]), ("window", learners["300, 300, balanced, window jump"])):
        rng = torch.Generator().manual_seed(seed)
        after, info = trans_ms(rng, Chains(chains), side.target, side.proposal, dataclasses.replace(side.config, trials=1))
        expected = info["jump"].length_share
        assert expected is not None
        shares[f"expected of a {name} jump"].add(expected * weight)
        if name == "local":
            shares["a count"].add(side._share(after.batch.lengths_B) * weight)


if __name__ == "__main__":
    main()
