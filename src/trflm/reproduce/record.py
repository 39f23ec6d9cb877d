"""What results.json holds: every row of a table, and what it is measured against. Markdown and page are drawn from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from trflm.evaluation.changed import Change
from trflm.evaluation.figures import Figures
from trflm.evaluation.significance import Comparison
from trflm.evaluation.weights import Weights
from trflm.files.records import IF_SET
from trflm.reproduce.plan import Paper

Curve = tuple[tuple[float, float], ...]  # (x, y)
WordScores = tuple[tuple[str, float], ...]  # what a model gives each word of a sentence, in nats


@dataclass(frozen=True, kw_only=True)
class Example(Change):
    """An utterance that a second pass changed: what was said, the first of the list, the new choice, and what decided."""

    reference: str
    before: str
    now: str
    score_gains: Mapping[str, float]  # by term, in nats
    words: tuple[WordScores, WordScores] | None = field(default=None, metadata=IF_SET)  # before and now, of a single model


@dataclass(frozen=True, kw_only=True)
class TextPerplexity:
    """Of the test text: from the zero state in every sentence, and read in order by a model that can."""

    reset: float
    preserve: float | None = field(default=None, metadata=IF_SET)


@dataclass(frozen=True, kw_only=True)
class FieldPerplexity:
    """Of the test text by a random field: at least `low` (proven, but for a chance of 5 %), at most `high` (a diagnostic)."""

    low: float
    high: float
    estimate: float
    own: float  # by the field's own zeta
    how: str
    minutes: float
    rounds: int
    burn_in: int


@dataclass(frozen=True, kw_only=True)
class AnyRow:
    """What every row has."""

    name: str
    label: str
    paper: Paper
    status: str


@dataclass(frozen=True, kw_only=True)
class MissingRow(AnyRow):
    """A row without figures, and why."""

    status: Literal["not available", "failed"]
    reason: str


@dataclass(frozen=True, kw_only=True)
class DoneRow(AnyRow):
    """Weights tuned on dev, word errors counted on test."""

    status: Literal["done"] = "done"
    wer: Figures
    dev_wer: float
    weights: Weights
    scale_curve: Curve  # (scale, dev WER)
    against_baseline: Comparison | None = field(default=None, metadata=IF_SET)
    against_rival: Comparison | None = field(default=None, metadata=IF_SET)


@dataclass(frozen=True, kw_only=True)
class SeedRun:
    """What the same recipe gave with another seed, tuned anew."""

    wer: Figures
    dev_wer: float
    against_baseline: Comparison | None = field(default=None, metadata=IF_SET)


@dataclass(frozen=True, kw_only=True)
class ModelRow(DoneRow):
    """The row of one model."""

    unfinished: str | None = field(default=None, metadata=IF_SET)  # how far its training is
    parameters: int
    training_seconds: float | None
    rescoring_seconds: float  # a list
    perplexity: TextPerplexity | None  # None: of a random field there is at most an interval
    perplexity_interval: FieldPerplexity | None = field(default=None, metadata=IF_SET)
    changed: tuple[Example, ...]
    strategies: Mapping[str, Figures] | None = field(default=None, metadata=IF_SET)  # of the three ways to read lists in order
    seeds: Mapping[str, SeedRun] | None = field(default=None, metadata=IF_SET)  # seed -> a further run
    curves: Mapping[str, Curve]  # quantity -> (epoch, value)


@dataclass(frozen=True, kw_only=True)
class CombinedRow(DoneRow):
    """The row of several models, combined log-linearly."""

    rescoring_seconds: float
    changed: tuple[Example, ...]
    equal: Figures | None = field(default=None, metadata=IF_SET)  # with the same weight for every model, as the paper has it


RowResult = ModelRow | CombinedRow | MissingRow


@dataclass(frozen=True)
class ListFacts:
    """A set of lists."""

    utterances: int
    hypotheses: int
    words: int
    oracle_by_depth: Mapping[str, float]  # hypotheses of a list -> the best WER that they hold


@dataclass(frozen=True)
class Made:
    """By what, where and when."""

    trflm: str
    commit: str | None
    torch: str
    python: str
    machine: str
    processor: str
    date: str


@dataclass(frozen=True)
class Results:
    """The whole table."""

    title: str
    about: str
    baseline: str
    seed: int
    made: Made
    lists: Mapping[str, ListFacts]  # dev, test
    references: Mapping[str, Figures]  # of test without a second pass, and the oracle
    rows: tuple[RowResult, ...] = ()
    rival: str = ""  # a second row that others are compared with

    @property
    def done(self) -> list[ModelRow | CombinedRow]:
        return [row for row in self.rows if not isinstance(row, MissingRow)]

    @property
    def models(self) -> list[ModelRow]:
        """The rows of single models."""
        return [row for row in self.rows if isinstance(row, ModelRow)]

    @property
    def missing(self) -> list[MissingRow]:
        return [row for row in self.rows if isinstance(row, MissingRow)]
