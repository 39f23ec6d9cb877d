"""Measure and write: word errors of a second pass beside those without one, and the files that hold them.

Shapes: U utterances, H hypotheses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from trflm.evaluation.alignment import nbest_errors
from trflm.evaluation.changed import Change, changed_utterances
from trflm.evaluation.figures import Figures, figures
from trflm.evaluation.second_pass.combine import Rescored, ScoreTable, default_weights
from trflm.evaluation.second_pass.lists import ListSet
from trflm.evaluation.second_pass.one_list import Model
from trflm.evaluation.significance import Comparison
from trflm.evaluation.tune import cross_validate, tune
from trflm.evaluation.weights import CrossValidation, FileContent, TunedWeights, Weights
from trflm.evaluation.wer import WordErrors, word_error_rate
from trflm.files.records import IF_SET, KEY

FIRST, WITHOUT_LM, RESCORED, ORACLE = "first in the lists", "without LM", "rescored", "oracle"
TUNED_HERE = "tuned on the set that is reported: these figures are too good"
MARK = "tuned-on-this-set."  # begins the name of every file written in that case


def word_errors(lists: ListSet, chosen_U: np.ndarray) -> WordErrors:
    """Of a choice of one hypothesis an utterance."""
    return word_error_rate(lists.nbest.transcripts(chosen_U), lists.references)


@dataclass(frozen=True, eq=False)
class Baselines:
    """What a second pass is measured against."""

    lists: ListSet

    @cached_property
    def first(self) -> WordErrors:
        """The order of the lists."""
        return word_errors(self.lists, self.lists.nbest.hyp_starts_U1[:-1])

    @cached_property
    def without_lm(self) -> WordErrors:
        return word_errors(self.lists, self.lists.nbest.best(self.lists.nbest.acoustic_H))

    @cached_property
    def oracle(self) -> WordErrors:
        """The best there is in the lists."""
        nbest = self.lists.nbest
        return word_errors(self.lists, nbest.best(-nbest_errors(nbest, self.lists.references)))


@dataclass(frozen=True)
class Decision(Change):
    """An utterance in which the second pass chose another hypothesis than the first of the list, and which terms decided."""

    score_gains: Mapping[str, float]  # in nats; a positive one speaks for the choice
    reference: str | None = field(default=None, metadata=IF_SET)  # what was said
    before: str | None = field(default=None, metadata=IF_SET)  # the first of the list
    now: str | None = field(default=None, metadata=IF_SET)  # the choice


def decisions(rescored: Rescored, first: WordErrors, errors: WordErrors) -> list[Decision]:
    """All of them, the most improved first, the worst harmed last."""
    place = {utterance: u for u, utterance in enumerate(rescored.table.nbest.utterances)}
    return [
        Decision(**vars(change), score_gains=rescored.gains(place[change.utterance]))
        for change in changed_utterances(first, errors)
    ]


@dataclass(frozen=True, kw_only=True)
class SecondPassResult:
    """result.json."""

    warning: str | None = field(default=None, metadata=IF_SET)
    rescorer: str | None = field(default=None, metadata=IF_SET)  # hash of its directory
    shard: str | None = field(default=None, metadata=IF_SET)
    files: Mapping[str, FileContent]  # by role
    weights: Weights
    mapping: str
    utterances: int
    hypotheses: int
    oov_words_per_hypothesis: Mapping[str, float]  # by model
    oov_types: Mapping[str, int]
    # With references only:
    wer: Mapping[str, Figures] | None = field(default=None, metadata=IF_SET)
    comparison: Comparison | None = field(default=None, metadata={**IF_SET, KEY: "rescored against first in the lists"})
    changed: tuple[Decision, ...] | None = field(default=None, metadata=IF_SET)
    scores: Mapping[str, str] | None = field(default=None, metadata=IF_SET)  # the names of models in scores.jsonl.gz


def tune_weights(
    table: ScoreTable,
    lists: ListSet,
    models: Mapping[str, Model],
    mapping: str,
    oov_penalty: float | None = None,
    folds: int = 0,
    seed: int = 0,
) -> TunedWeights:
    """The weights of fewest word errors on these lists, with their origin; cross-validated over `folds`, if there are any.

    Where the models know every word of the lists, nothing tells what an unknown one should cost: each keeps its own penalty.
    """
    tuned = tune(table, lists.references, oov_penalty)
    weights = tuned.weights
    if oov_penalty is None and not any(scores.oov_H.any() for scores in table.lms.values()):
        weights = default_weights(models, weights.factors, weights.word_penalty, None)

    def rate(chosen_U: np.ndarray) -> Figures:
        return figures(word_errors(lists, chosen_U), seed)

    dev = rate(Rescored(table, weights).chosen_U)
    validated = None
    if folds:
        validated = CrossValidation(folds, rate(cross_validate(table, lists.references, folds, oov_penalty).chosen_U))
    return TunedWeights(weights, mapping, dev, lists.files, tuned.scale_curve, validated)
