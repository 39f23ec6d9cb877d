"""Perplexity: exp(-log p(text) / (words + sentences)), the ends of sentences counted.

Of a normalised, left-to-right model it is a number. Of a random field it is an interval, from bounds of its normalising
constants (`bracket`): "at least `low`" is a theorem that fails with a probability of at most 5 %, whatever the work; "at
most `high`" would be one too if the sentences its chains start from were exact samples of the field, and is a diagnostic as
they are not. Snapshots of a field are models of their own: the interval is that of the mean of their perplexities, as the
paper averages. Another estimator may check the interval: two right ones overlap.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trflm.evaluation.bracket import length_counts
from trflm.evaluation.effort import Effort, Say, again, prepared
from trflm.evaluation.narrow import Task, closing, narrow
from trflm.field.snapshots import FieldModel
from trflm.field.trf import TRF
from trflm.language_model import LanguageModel
from trflm.sampling.estimator import EstimatorConfig
from trflm.sampling.smc import SMCConfig
from trflm.seeds import generator
from trflm.text import Batch
from trflm.text.lengths import PI_FLOOR


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
    check: "Perplexity | None" = None  # by another estimator

    @property
    def disagrees(self) -> bool:
        """The two intervals have nothing in common: one of them is wrong."""
        return self.check is not None and (self.check.low > self.high or self.low > self.check.high)

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


Watch = Callable[[Perplexity], None]
CHECK_SHARE = 0.25  # of the time, for the other estimator


def perplexity(
    lm: LanguageModel,
    text: Batch | Sequence[str],
    how: EstimatorConfig | None = None,
    effort: Effort | None = None,
    watch: Watch = lambda so_far: None,
    say: Say = lambda line: None,
    check: EstimatorConfig | None = None,
) -> Perplexity:
    """The perplexity of a text: exp(-log p / (words + sentences)), the ends of sentences counted.

    Exact for n-gram and LSTM models; for a random field an interval, because its normalising constants are estimated.

        p = trflm.perplexity(lm, ["the market rose", "the market fell"])
        p.low, p.high, p.how

    Args:
        lm: A model from `trflm.load`.
        text: Sentences; all at once, so that a model which reads them as one text can.
        how: The estimator of a random field's constants; if not given, sequential Monte Carlo.
        effort: How long to estimate, or to which gap.
        watch: Sees the interval after every round.
        say: Is told what comes before the first round.
        check: A second estimator, for a quarter of the time unless its interval is as narrow sooner.
    """
    batch = lm.vocab.batch(text)
    if isinstance(lm, FieldModel):
        return field_perplexity(lm, batch, how or SMCConfig(), effort or Effort(), watch, say, check)
    return exact(float(lm.log_prob(batch).double().sum()), batch)


def exact(log_prob: float, text: Batch) -> Perplexity:
    value = as_perplexity(log_prob, text.n_words + len(text))
    return Perplexity(value, value, "exact", log_prob, len(text), text.n_words, value)


def field_perplexity(
    lm: FieldModel, text: Batch, how: EstimatorConfig, effort: Effort, watch: Watch, say: Say, check: EstimatorConfig | None
) -> Perplexity:
    started, symbols = time.monotonic(), text.n_words + len(text)
    counts = length_counts(text)
    own = sum(float(field.log_prob(text).sum()) for field in lm.fields) / len(lm.fields)
    known = [known_part(field, text) for field in lm.fields]

    def mean_perplexity(totals: Sequence[float]) -> float:
        return sum(as_perplexity(part - total, symbols) for part, total in zip(known, totals, strict=True)) / len(known)

    def known_of(tasks: list[Task], interrupted: bool = False) -> Perplexity:
        brackets = [task.bracket for task in tasks]
        lows, highs = zip(*(bracket.bounds() for bracket in brackets), strict=True)
        middle = [sum(counts[length] * value for length, value in bracket.estimate().items()) for bracket in brackets]
        return Perplexity(
            mean_perplexity(lows),
            mean_perplexity(highs),
            "exact" if all(bracket.is_exact for bracket in brackets) else tasks[-1].estimator.describe(),
            own,
            len(text),
            text.n_words,
            mean_perplexity(middle),
            tuple(never_seen(lm.fields[-1].pi, list(counts))),
            minutes=(time.monotonic() - started) / 60,
            rounds=min(len(bracket.rounds) for bracket in brackets),
            burn_in=effort.burn_in,
            pulled=max(task.pulled.steps if task.pulled else 0 for task in tasks),
            closing=closing(brackets),
            interrupted=interrupted,
        )

    def narrowed(tasks: list[Task], gap: float, seconds: float) -> Perplexity:
        def show() -> None:
            if all(task.begun for task in tasks):
                watch(known_of(tasks))

        def done() -> bool:
            return all(task.begun for task in tasks) and known_of(tasks).gap <= gap

        return known_of(tasks, narrow(tasks, done, seconds, math.log1p(gap) * symbols, show))

    tasks = prepared(lm, [counts] * len(lm.fields), how, effort, say)
    seconds = effort.seconds_left(started)
    found = narrowed(tasks, effort.gap, seconds if check is None else seconds * (1 - CHECK_SHARE))
    if check is None or found.is_exact or found.interrupted:
        return found
    try:
        rngs = [generator(effort.seed, "perplexity", len(tasks) + number) for number in range(len(tasks))]
        others = [again(task, check, rng, say) for task, rng in zip(tasks, rngs, strict=True)]
        other = narrowed(others, found.gap, effort.seconds_left(started))
    except KeyboardInterrupt:  # before there was anything to compare with
        return replace(found, interrupted=True)
    return replace(found, check=other, interrupted=other.interrupted, minutes=other.minutes)


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
