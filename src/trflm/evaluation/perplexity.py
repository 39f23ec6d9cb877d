"""Perplexity: exp(-log p(text) / (words + sentences)), the ends of sentences counted.

Of a normalised, left-to-right model it is a number. Of a random field it is an interval, from bounds of its normalising
constants (`bracket`): "at least `low`" is a theorem that fails with a probability of at most 5 %, whatever the work; "at
most `high`" would be one too if the sentences its chains start from were exact samples of the field, and is a diagnostic as
they are not. Snapshots of a field are models of their own: the interval is that of the mean of their perplexities, as the
paper averages.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trflm.evaluation.bracket import Bracket, burnt_in, length_counts
from trflm.evaluation.narrow import Task, closing, narrow
from trflm.field.snapshots import FieldModel
from trflm.field.trf import TRF
from trflm.language_model import LanguageModel
from trflm.learning.pull import PullConfig, pull
from trflm.sampling.estimator import Problem
from trflm.sampling.estimators import EstimatorConfig
from trflm.sampling.smc import SMCConfig
from trflm.seeds import generator
from trflm.text import Batch
from trflm.text.lengths import PI_FLOOR

ALPHA = 0.05  # the probability that an end is wrong


@dataclass(frozen=True)
class Perplexity:
    """How well a model predicts a text."""

    low: float
    high: float
    how: str
    log_prob: float  # natural log, of the whole text, by the model's own normalising constants
    sentences: int
    words: int
    estimate: float = math.nan  # between the ends: from all rounds together; of an exact model the perplexity itself
    unseen: tuple[int, ...] = ()  # lengths of the text that training did not have
    minutes: float = 0.0
    rounds: int = 0
    burn_in: int = 0  # sweeps before a sentence is taken for a sample of the field
    pulled: int = 0  # sweeps in which the proposal learned to follow the field
    closing: float | None = None  # the ends come together as (work a round) to this power
    interrupted: bool = False

    @property
    def perplexity(self) -> float:
        """By the model's own normalising constants: of a field that is its learner's guess."""
        return as_perplexity(self.log_prob, self.words + self.sentences)

    @property
    def is_exact(self) -> bool:
        return self.low == self.high

    @property
    def gap(self) -> float:
        """How much greater the upper end is, as a share."""
        return self.high / self.low - 1 if self.low < self.high else 0.0


def as_perplexity(log_prob: float, symbols: int) -> float:
    return math.exp(min(-log_prob / symbols, 700.0)) if log_prob > -math.inf else math.inf


@dataclass(frozen=True)
class Effort:
    """How long to work at an interval."""

    minutes: float = 20.0
    gap: float = 0.02  # stop when the upper end is by this share greater than the lower one; 0: never
    burn_in: int = 10
    pull: PullConfig = dataclasses.field(
        default_factory=PullConfig
    )  # of the proposal towards the field, first; and the moves of the burn-in
    pull_share: float = 0.25  # of the time at most
    seed: int = 1

    def __post_init__(self) -> None:
        if not (self.minutes > 0 and self.gap >= 0 and self.burn_in >= 0 and self.seed >= 0):
            raise ValueError("minutes must be positive, gap, burn_in and seed must not be negative")
        if not 0 <= self.pull_share < 1:
            raise ValueError(f"pull_share = {self.pull_share}: must be at least 0 and below 1")


Watch = Callable[[Perplexity], None]


def perplexity(
    lm: LanguageModel,
    text: Batch | Sequence[str],
    how: EstimatorConfig | None = None,
    effort: Effort | None = None,
    watch: Watch = lambda so_far: None,
) -> Perplexity:
    """Of all sentences at once, so that a model which reads them as one text can. `watch` sees the interval after every
    round."""
    batch = lm.vocab.batch(text)
    if isinstance(lm, FieldModel):
        return field_perplexity(lm, batch, how or SMCConfig(), effort or Effort(), watch)
    return exact(float(lm.log_prob(batch).double().sum()), batch)


def exact(log_prob: float, text: Batch) -> Perplexity:
    value = as_perplexity(log_prob, text.n_words + len(text))
    return Perplexity(value, value, "exact", log_prob, len(text), text.n_words, value)


def field_perplexity(lm: FieldModel, text: Batch, how: EstimatorConfig, effort: Effort, watch: Watch) -> Perplexity:
    started = time.monotonic()
    tasks = [prepared(lm, field, text, how, effort, k) for k, field in enumerate(lm.fields)]
    own = sum(float(field.log_prob(text).sum()) for field in lm.fields) / len(lm.fields)
    known = [known_part(field, text) for field in lm.fields]
    unseen = tuple(never_seen(lm.fields[-1].pi, list(length_counts(text))))

    def result(interrupted: bool = False) -> Perplexity:
        return summary(tasks, known, text, own, unseen, effort, (time.monotonic() - started) / 60, interrupted)

    def done() -> bool:
        return all(task.bracket.rounds or task.bracket.is_exact for task in tasks) and result().gap <= effort.gap

    def show() -> None:
        if all(task.bracket.rounds or task.bracket.is_exact for task in tasks):
            watch(result())

    goal = math.log1p(effort.gap) * (text.n_words + len(text))
    return result(narrow(tasks, done, 60 * effort.minutes - (time.monotonic() - started), goal, show))


def prepared(lm: FieldModel, field: TRF, text: Batch, how: EstimatorConfig, effort: Effort, number: int) -> Task:
    """A field and its estimator after the pilot run. Each snapshot's end may be wrong with its share of the probability."""
    problem, rng = Problem(field, lm.proposal), generator(effort.seed, "perplexity", number)
    bracket, pulled = Bracket(problem, length_counts(text), ALPHA / len(lm.fields)), None
    if not bracket.is_exact and effort.pull_share:
        seconds = 60 * effort.minutes * effort.pull_share / len(lm.fields)
        proposal, pulled = pull(rng, field, lm.proposal, text.lengths_B, effort.pull, seconds)
        problem = Problem(field, proposal)
    estimator = how.build(problem)
    if not bracket.is_exact:
        estimator = estimator.prepare(rng, list(bracket.runs))
    samples = burnt_in(problem, effort.burn_in, effort.pull.block, effort.pull.trials)
    return Task(bracket, estimator, samples, rng, [], pulled)


def summary(
    tasks: list[Task],
    known: list[float],
    text: Batch,
    own: float,
    unseen: tuple[int, ...],
    effort: Effort,
    minutes: float,
    interrupted: bool,
) -> Perplexity:
    symbols, n = text.n_words + len(text), len(tasks)
    brackets = [task.bracket for task in tasks]

    def mean_perplexity(totals: list[float]) -> float:
        return sum(as_perplexity(part - total, symbols) for part, total in zip(known, totals, strict=True)) / n

    both = [bracket.bounds() for bracket in brackets]
    middle = [sum(b.counts[length] * value for length, value in b.estimate().items()) for b in brackets]
    return Perplexity(
        mean_perplexity([low for low, _ in both]),
        mean_perplexity([high for _, high in both]),
        "exact" if all(b.is_exact for b in brackets) else tasks[-1].estimator.describe(),
        own, len(text), text.n_words, mean_perplexity(middle), unseen, minutes,
        min(len(b.rounds) for b in brackets), effort.burn_in,
        max(task.pulled.steps if task.pulled else 0 for task in tasks), closing(brackets), interrupted,
    )  # fmt: skip


def known_part(trf: TRF, text: Batch) -> float:
    """A = sum_x log pi_l + phi(x)."""
    counts = length_counts(text)
    log_pi = length_log_probs(trf.pi, list(counts))
    return float(trf.phi(text).sum()) + sum(n * log_pi[length] for length, n in counts.items())


def never_seen(pi: Tensor, lengths: list[int]) -> list[int]:
    """Those of these lengths that training did not have."""
    return [length for length in lengths if length >= len(pi) or pi[length] == 0]


def length_log_probs(pi: Tensor, lengths: list[int]) -> dict[int, float]:
    """log pi_l of these lengths. If training never saw some, pi is floored up to the longest and made to sum to one again."""
    full = torch.cat([pi, pi.new_zeros(max(0, *lengths) + 1)])[: max(len(pi), *(length + 1 for length in lengths))]
    if never_seen(pi, lengths):
        full[1:] = full[1:].clamp(min=PI_FLOOR)
        full = full / full.sum()
    return {length: math.log(float(full[length])) for length in lengths}
