"""Measure and write: word errors of a second pass beside those without one, and the files that hold them.

Shapes: U utterances, H hypotheses.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from trflm.evaluation.alignment import nbest_errors
from trflm.evaluation.changed import Change, changed_utterances
from trflm.evaluation.figures import Figures, figures
from trflm.evaluation.formats import write_jsonl
from trflm.evaluation.nbest import ACOUSTIC, NBest
from trflm.evaluation.second_pass.combine import Rescored, ScoreTable, default_weights
from trflm.evaluation.second_pass.lists import ListSet
from trflm.evaluation.second_pass.one_list import Model
from trflm.evaluation.significance import Comparison, compare
from trflm.evaluation.transcripts import write_transcripts
from trflm.evaluation.tune import cross_validate, tune
from trflm.evaluation.weights import CrossValidation, FileContent, TunedWeights, Weights
from trflm.evaluation.wer import WordErrors, word_error_rate
from trflm.files.records import IF_SET, KEY, to_record
from trflm.files.writer import write_text

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
        return word_errors(self.lists, self.lists.nbest.best(self.lists.nbest.scores[ACOUSTIC]))

    @cached_property
    def oracle(self) -> WordErrors:
        """The best there is in the lists."""
        nbest = self.lists.nbest
        return word_errors(self.lists, nbest.best(-nbest_errors(nbest, self.lists.references)))


@dataclass(frozen=True)
class Decision(Change):
    """An utterance in which the second pass chose another hypothesis than the first of the list, and which terms decided."""

    score_gains: Mapping[str, float]  # in nats; a positive one speaks for the choice


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
    changed: Sequence[Decision] | None = field(default=None, metadata=IF_SET)
    scores: Mapping[str, str] | None = field(default=None, metadata=IF_SET)  # the names of models in scores.jsonl.gz


def result(rescored: Rescored, lists: ListSet, mapping: str, tuned_here: bool = False, seed: int = 0) -> SecondPassResult:
    """What a second pass did; with references, how many word errors it has, and how sure that is (`seed`: of the bootstrap)."""
    table = rescored.table
    found = SecondPassResult(
        warning=TUNED_HERE if tuned_here else None,
        files=lists.files,
        weights=rescored.weights,
        mapping=mapping,
        utterances=len(table.nbest),
        hypotheses=table.nbest.n_hypotheses,
        oov_words_per_hypothesis={name: float(scores.oov_H.mean()) for name, scores in table.lms.items()},
        oov_types={name: len(scores.oov_types) for name, scores in table.lms.items()},
    )
    if not lists.references:
        return found
    base, errors = Baselines(lists), word_errors(lists, rescored.chosen_U)
    rates = {FIRST: base.first, WITHOUT_LM: base.without_lm, RESCORED: errors, ORACLE: base.oracle}
    return replace(
        found,
        wer={name: figures(of, seed) for name, of in rates.items()},
        comparison=compare(base.first, errors, seed),
        changed=decisions(rescored, base.first, errors),
    )


def write_result(found: SecondPassResult, rescored: Rescored, directory: Path, scores: bool = False) -> None:
    """best.txt, result.json and, if `scores`, every hypothesis with all its scores in scores.jsonl.gz."""
    mark = MARK if found.warning else ""
    write_transcripts(rescored.best(), directory / f"{mark}best.txt")
    if scores:
        write_jsonl(_with_scores(rescored), directory / f"{mark}scores.jsonl.gz")
        found = replace(found, scores={f"lm{k}": name for k, name in enumerate(rescored.table.lms, 1)})
    with write_text(directory / f"{mark}result.json") as file:
        json.dump(to_record(found), file, indent=2)
        file.write("\n")


def _with_scores(rescored: Rescored) -> NBest:
    """The lists with one more score a model (`lm1`, `lm2`, ... or as the lists named them) and the total."""
    added = {f"lm{k}": scores.log_prob_H for k, scores in enumerate(rescored.table.lms.values(), 1)}
    nbest = rescored.table.nbest
    return replace(nbest, scores={**nbest.scores, **added, "total": rescored.score_H})


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


def costs_suspected(lists: ListSet) -> bool:
    """Whether the lowest acoustic scores lead to fewer errors than the highest."""
    errors_H = nbest_errors(lists.nbest, lists.references)
    acoustic_H = lists.nbest.scores[ACOUSTIC]
    highest, lowest = (errors_H[lists.nbest.best(score_H)].sum() for score_H in (acoustic_H, -acoustic_H))
    return bool(highest > lowest)
