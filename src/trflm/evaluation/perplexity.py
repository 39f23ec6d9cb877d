"""Perplexity: exp(-log p(text) / (words + sentences)), the ends of sentences counted.

Of a normalised, left-to-right model it is a number. Of a random field it is an interval, from bounds of its normalising
constants (`bracket`): "at least `low`" is a theorem that fails with a probability of at most 5 %, whatever the work; "at
most `high`" would be one too if the sentences its chains start from were exact samples of the field, and is a diagnostic as
they are not. Snapshots of a field are models of their own: the interval is that of the mean of their perplexities, as the
paper averages.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from trflm.evaluation.bracket import Bracket, burnt_in
from trflm.evaluation.narrow import Task, closing, narrow
from trflm.language_model import LanguageModel
from trflm.lms.proposal import Proposal
from trflm.sampling.estimator import Problem
from trflm.sampling.estimators import EstimatorConfig
from trflm.sampling.mixture import TransMSConfig
from trflm.sampling.smc import SMCConfig
from trflm.seeds import generator
from trflm.text import Batch
from trflm.trf import TRF

ALPHA = 0.05  # the probability that an end is wrong


@runtime_checkable
class Field(Protocol):
    """A language model that is one or several random fields."""

    fields: list[TRF]
    proposal: Proposal
    sampler: TransMSConfig


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
    seed: int = 1

    def __post_init__(self) -> None:
        if not (self.minutes > 0 and self.gap >= 0 and self.burn_in >= 0 and self.seed >= 0):
            raise ValueError("minutes must be positive, gap, burn_in and seed must not be negative")


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
    if isinstance(lm, Field):
        return field_perplexity(lm, batch, how or SMCConfig(), effort or Effort(), watch)
    return exact(float(lm.log_prob(batch).double().sum()), batch)


def exact(log_prob: float, text: Batch) -> Perplexity:
    value = as_perplexity(log_prob, text.n_words + len(text))
    return Perplexity(value, value, "exact", log_prob, len(text), text.n_words, value)


def field_perplexity(lm: Field, text: Batch, how: EstimatorConfig, effort: Effort, watch: Watch) -> Perplexity:
    started = time.monotonic()
    tasks = [prepared(lm, field, text, how, effort, k) for k, field in enumerate(lm.fields)]
    own = sum(float(field.log_prob(text).sum()) for field in lm.fields) / len(lm.fields)

    def result(interrupted: bool = False) -> Perplexity:
        return summary(tasks, text, own, effort, (time.monotonic() - started) / 60, interrupted)

    def done() -> bool:
        return all(task.bracket.rounds or task.bracket.is_exact for task in tasks) and result().gap <= effort.gap

    def show() -> None:
        if all(task.bracket.rounds or task.bracket.is_exact for task in tasks):
            watch(result())

    goal = math.log1p(effort.gap) * (text.n_words + len(text))
    return result(narrow(tasks, done, 60 * effort.minutes - (time.monotonic() - started), goal, show))


def prepared(lm: Field, field: TRF, text: Batch, how: EstimatorConfig, effort: Effort, number: int) -> Task:
    """A field and its estimator after the pilot run. Each snapshot's end may be wrong with its share of the probability."""
    problem, rng = Problem(field, lm.proposal), generator(effort.seed, "perplexity", number)
    bracket = Bracket(problem, text, ALPHA / len(lm.fields))
    estimator = how.build(problem)
    if not bracket.is_exact:
        estimator = estimator.prepare(rng, list(bracket.runs))
    samples = burnt_in(problem, effort.burn_in, lm.sampler.block, lm.sampler.trials)
    return Task(bracket, estimator, samples, rng, [])


def summary(tasks: list[Task], text: Batch, own: float, effort: Effort, minutes: float, interrupted: bool) -> Perplexity:
    symbols, n = text.n_words + len(text), len(tasks)
    brackets = [task.bracket for task in tasks]

    def mean_perplexity(totals: list[float]) -> float:
        values = [as_perplexity(b.log_likelihood(total), symbols) for b, total in zip(brackets, totals, strict=True)]
        return sum(values) / n

    both = [bracket.bounds() for bracket in brackets]
    middle = [sum(b.counts[length] * value for length, value in b.estimate().items()) for b in brackets]
    return Perplexity(
        mean_perplexity([low for low, _ in both]),
        mean_perplexity([high for _, high in both]),
        "exact" if all(b.is_exact for b in brackets) else tasks[-1].estimator.describe(),
        own, len(text), text.n_words, mean_perplexity(middle), tuple(brackets[-1].unseen), minutes,
        min(len(b.rounds) for b in brackets), effort.burn_in, closing(brackets), interrupted,
    )  # fmt: skip
