"""How long to work at the normalising constants of a model's fields, and what is done before the first estimate: the proposal
is pulled towards the field, and a pilot run settles what the estimator adapts.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

import torch

from trflm.errors import InputError
from trflm.evaluation.bracket import Bracket, burnt_in
from trflm.evaluation.narrow import Task
from trflm.field.snapshots import FieldModel
from trflm.learning.pull import PullConfig, pull
from trflm.ranges import Amount, NotNegative, Range, Seed, Share, check_fields
from trflm.sampling.estimator import Estimator, EstimatorConfig, Problem
from trflm.seeds import generator

ALPHA = 0.05  # the probability that an end is wrong

Say = Callable[[str], None]


@dataclass(frozen=True)
class Effort:
    """How long to work at an interval."""

    minutes: Annotated[float, Range(0, math.inf, above=True)] = 20.0
    gap: NotNegative = 0.02  # stop when the upper end is by this share greater than the lower one; 0: never
    burn_in: Amount = 10
    pull: PullConfig = field(default_factory=PullConfig)  # of the proposal; also the moves of the burn-in
    pull_share: Share = 0.25  # of the time at most
    seed: Seed = 1

    def __post_init__(self) -> None:
        check_fields(self)
        if self.pull_share == 1:
            raise InputError("pull_share = 1: must be below 1, or no time is left to estimate")

    def seconds_left(self, started: float) -> float:
        return 60 * self.minutes - (time.monotonic() - started)

    def goal(self, symbols: int) -> float:
        """The gap in nats of a text of so many symbols."""
        return math.log1p(self.gap) * symbols


def prepared(lm: FieldModel, counts: list[dict[int, int]], how: EstimatorConfig, effort: Effort, say: Say) -> list[Task]:
    """A task for each field, with these numbers of sentences of each length. The end of each may be wrong with its share of
    the probability, so that all are right together."""
    tasks = []
    for number, (trf, of_length) in enumerate(zip(lm.fields, counts, strict=True)):
        rng, problem, pulled = generator(effort.seed, "perplexity", number), Problem(trf, lm.proposal), None
        bracket = Bracket(problem, of_length, ALPHA / len(lm.fields))
        if not bracket.is_exact and effort.pull_share:
            lengths = torch.tensor(list(of_length)).repeat_interleave(torch.tensor(list(of_length.values())))
            seconds = 60 * effort.minutes * effort.pull_share / len(lm.fields)
            proposal, pulled = pull(rng, trf, lm.proposal, lengths, effort.pull, seconds)
            problem = Problem(trf, proposal)
            if pulled:
                say(
                    f"proposal: {pulled.steps} sweeps of learning to follow the field, phi - log q a sentence "
                    f"{pulled.score[0]:.1f} to {pulled.score[1]:.1f}, {100 * pulled.accepted:.0f} % of the moves accepted"
                )
        samples = burnt_in(problem, effort.burn_in, effort.pull.block, effort.pull.trials)
        estimator = ready(problem, bracket, how, rng, say)
        tasks.append(Task(problem, bracket, estimator, samples, rng, [], pulled))
    return tasks


def again(task: Task, how: EstimatorConfig, rng: torch.Generator, say: Say) -> Task:
    """The same field, text and proposal, with another estimator and nothing known yet."""
    bracket = Bracket(task.problem, task.bracket.counts, task.bracket.alpha)
    return Task(task.problem, bracket, ready(task.problem, bracket, how, rng, say), task.samples, rng, [], task.pulled)


def ready(problem: Problem, bracket: Bracket, how: EstimatorConfig, rng: torch.Generator, say: Say) -> Estimator:
    """The estimator after its pilot run."""
    estimator = how.build(problem)
    if not bracket.is_exact:
        estimator = estimator.prepare(rng, list(bracket.runs))
        say(estimator.describe())
    return estimator
