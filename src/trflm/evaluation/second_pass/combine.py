"""Combine the scores of several models by weights, and choose the best hypothesis of each utterance.

Shapes: U utterances, H hypotheses.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trflm.evaluation.nbest import ACOUSTIC, TIE, NBest
from trflm.evaluation.second_pass.lists import ListSet
from trflm.evaluation.second_pass.one_list import ListScorer, Model
from trflm.evaluation.second_pass.scores import FirstPass, LMScores, oov_types, score_lm
from trflm.evaluation.weights import Weights
from trflm.language_model import LanguageModel, default_oov_penalty
from trflm.ranges import Weight, bounded
from trflm.text.mapping import TextMapping, parse_mapping


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """N-best lists and what each language model says of them: all that tuning and rescoring need."""

    nbest: NBest
    lms: Mapping[str, LMScores]

    @cached_property
    def default_oov_penalty(self) -> float:
        """ln of the number of word types in the lists that some model does not know; 0 if there are none."""
        types = frozenset().union(*(scores.oov_types for scores in self.lms.values()))
        return math.log(max(len(types), 1))

    def combine(self, weights: Weights) -> np.ndarray:
        """[H] acoustic + sum_k factor_k (LM_k - oov_penalty_k OOV_k) + word_penalty words."""
        total_H = self.nbest.acoustic_H + weights.word_penalty * self.nbest.lengths_H
        for name, factor in zip(weights.lms, weights.factors, strict=True):
            scores = self.lms[name]
            total_H = total_H + factor * (scores.log_prob_H - weights.penalty_of(name) * scores.oov_H)
        return total_H


@dataclass(frozen=True, eq=False)
class Rescored:
    """The lists with their combined scores."""

    table: ScoreTable
    weights: Weights

    @cached_property
    def score_H(self) -> np.ndarray:
        return self.table.combine(self.weights)

    @cached_property
    def chosen_U(self) -> np.ndarray:
        """The hypothesis of highest score of each utterance, the first of those within TIE of it."""
        return self.table.nbest.best(self.score_H, TIE)

    def best(self) -> dict[str, str]:
        """utterance -> the words of the best hypothesis."""
        return self.table.nbest.transcripts(self.chosen_U)

    def parts(self, hypothesis: int) -> dict[str, float]:
        """What each term adds to the score of hypothesis h: they sum to `score_H[h]`."""
        table, weights = self.table, self.weights
        found = {ACOUSTIC: float(table.nbest.acoustic_H[hypothesis])}
        for name, factor in zip(weights.lms, weights.factors, strict=True):
            scores = table.lms[name]
            found[name] = float(factor * scores.log_prob_H[hypothesis])
            found[f"{name} OOV words"] = float(-factor * weights.penalty_of(name) * scores.oov_H[hypothesis])
        found["words"] = float(weights.word_penalty * table.nbest.lengths_H[hypothesis])
        return found

    def gains(self, u: int) -> dict[str, float]:
        """By how much the choice in utterance u is better than the first of its list, term by term, in nats."""
        before, now = self.parts(int(self.table.nbest.hyp_starts_U1[u])), self.parts(int(self.chosen_U[u]))
        return {term: now[term] - before[term] for term in now}


Progress = Callable[[str, int], Callable[[int], None]]
"""Given the name of a model and how many sentences it will score, what is to be told how many it has scored."""


def silent(name: str, total: int) -> Callable[[int], None]:
    """The progress of which nobody is told."""
    return lambda done: None


def score_table(
    lists: ListSet,
    models: Mapping[str, LanguageModel | FirstPass],
    progress: Progress = silent,
) -> ScoreTable:
    """Every hypothesis scored by every model."""
    scores = {name: model.scores(lists.nbest) for name, model in models.items() if isinstance(model, FirstPass)}
    for name, model in models.items():
        if not isinstance(model, FirstPass):
            sentences = lists.sentences
            scores[name] = score_lm(lists.nbest, sentences, model, progress(name, len(sentences.texts)))
    return ScoreTable(lists.nbest, {name: scores[name] for name in models})


@bounded
def rescore(
    nbest: NBest,
    lms: Mapping[LanguageModel, Weight],
    word_penalty: Weight = 0.0,
    oov_penalty: Weight | None = None,
    mapping: TextMapping | str = (),
) -> Rescored:
    """Rescore lists with language models and the factor of each: `rescore(nbest, {lm: 0.7}).best()`.

    Args:
        nbest: What `read_nbest` returned.
        lms: Models (from `trflm.load`) and what the log probability of each is multiplied by.
        word_penalty: Added for every word, in nats.
        oov_penalty: Taken off for every word that a model does not know; if not given, each model's own default.
        mapping: How the recogniser's words become the models' words, by name: "ptb", "lower,clitics", ...
    """
    models = {f"lm{number}": lm for number, lm in enumerate(lms, 1)}
    weights = default_weights(models, list(lms.values()), word_penalty, oov_penalty)
    steps = parse_mapping(mapping) if isinstance(mapping, str) else mapping
    return Rescored(score_table_by_lists(ListSet(nbest, steps), ListScorer(models, weights, steps)), weights)


def score_table_by_lists(lists: ListSet, scorer: ListScorer) -> ScoreTable:
    """Every list scored by itself."""
    scored = [found for nbest in lists.nbest for found in scorer.every([nbest])]
    joined = {}
    for name, model in scorer.models.items():
        log_prob_H, oov_H = (
            np.concatenate(column)
            for column in zip(*((s.lms[name].log_prob_K, s.lms[name].oov_K) for s in scored), strict=True)
        )
        joined[name] = LMScores(
            log_prob_H, oov_H, frozenset() if isinstance(model, FirstPass) else oov_types(lists.sentences, model)
        )
    return ScoreTable(lists.nbest, joined)


def default_weights(
    models: Mapping[str, Model], factors: Sequence[float], word_penalty: float, oov_penalty: float | None
) -> Weights:
    """Weights that nobody tuned; an OOV penalty that is not given is each model's own."""
    made = Weights.from_factors(list(models), factors, word_penalty, oov_penalty or 0.0)
    if oov_penalty is not None:
        return made
    penalties = {name: 0.0 if isinstance(lm, FirstPass) else default_oov_penalty(lm) for name, lm in models.items()}
    return Weights(made.lms, made.scale, made.word_penalty, 0.0, penalties)
