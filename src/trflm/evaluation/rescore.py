"""Second pass: score the hypotheses with language models, combine, take the best of each utterance.

    score = acoustic + scale * sum_k weight_k * (LM_k - oov_penalty * OOV_k) + word_penalty * words

LM_k is the natural-log probability of the whole sentence, OOV_k how many of its words model k does not know. `<unk>`
stands for many words at once: log p(word) = log p(<unk>) - ln(types), so every unknown word costs the OOV penalty; its
default is ln of the number of unknown word types in the lists. Words are the recogniser's own, models see mapped text.

Shapes: U utterances, H hypotheses, D distinct sentences, L language models.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch

from trflm.errors import InputError
from trflm.evaluation.nbest import ACOUSTIC, NBest
from trflm.evaluation.weights import Weights
from trflm.language_model import LanguageModel
from trflm.speed.threads import in_threads
from trflm.text.mapping import TextMapping, apply

CHUNK_WORDS = 32_768  # words a language model is given at once, by all threads together: whole utterances, which share much


@dataclass(frozen=True, eq=False)
class Sentences:
    """The distinct sentences of the lists as a language model sees them."""

    texts: list[str]  # [D]
    index_H: np.ndarray  # which sentence each hypothesis is


@dataclass(frozen=True, eq=False)
class LMScores:
    """What one language model says of every hypothesis."""

    log_prob_H: np.ndarray
    oov_H: np.ndarray  # words it does not know
    oov_types: frozenset[str]

    @classmethod
    def from_first_pass(cls, nbest: NBest, name: str) -> "LMScores":
        """A score that the lists carry, such as the recogniser's own language model, which knows all its words."""
        if name not in nbest.scores:
            raise InputError(f"the n-best lists have no score {name!r}; they have {', '.join(nbest.scores) or 'none'}")
        return cls(nbest.scores[name], np.zeros(nbest.n_hypotheses, np.int64), frozenset())


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """N-best lists and what each language model says of them: all that tuning and rescoring need."""

    nbest: NBest
    lms: Mapping[str, LMScores]

    @property
    def acoustic_H(self) -> np.ndarray:
        return self.nbest.scores[ACOUSTIC]

    @cached_property
    def default_oov_penalty(self) -> float:
        """ln of the number of word types in the lists that some model does not know; 0 if there are none."""
        types = frozenset().union(*(scores.oov_types for scores in self.lms.values()))
        return math.log(max(len(types), 1))

    def combine(self, weights: Weights) -> np.ndarray:
        """[H] the score above."""
        total_H = self.acoustic_H + weights.word_penalty * self.nbest.lengths_H
        for name, factor in zip(weights.lms, weights.factors, strict=True):
            scores = self.lms[name]
            total_H = total_H + factor * (scores.log_prob_H - weights.oov_penalty * scores.oov_H)
        return total_H


def distinct_sentences(nbest: NBest, mapping: TextMapping = ()) -> Sentences:
    """Map every hypothesis and keep each sentence once, in order of appearance."""
    number: dict[str, int] = {}
    if mapping:
        mapped = (" ".join(apply(mapping, text.split())) for text in nbest.texts())
    else:
        mapped = nbest.texts()
    index_H = np.fromiter((number.setdefault(text, len(number)) for text in mapped), np.int64, nbest.n_hypotheses)
    return Sentences(list(number), index_H)


def score_lm(
    nbest: NBest,
    sentences: Sentences,
    lm: LanguageModel,
    progress: Callable[[int], None] = lambda done: None,
    at_once: bool = False,
) -> LMScores:
    """Score every distinct sentence once, in chunks of whole utterances, one a thread. `progress` is told how many are done.

    `at_once` is for models whose scores depend on what stands around a sentence: they are given all of them in one call.
    """
    log_prob_D = np.empty(len(sentences.texts))
    oov_D = np.empty(len(sentences.texts), np.int64)

    def score(start: int, end: int) -> int:
        batch = lm.vocab.batch(sentences.texts[start:end])
        log_prob_D[start:end] = lm.log_prob(batch).double().numpy(force=True)
        oov_D[start:end] = batch.sum_words((batch.ids_N == 0).long()).numpy(force=True)
        return end

    chunks = [(0, len(sentences.texts))] if at_once else _chunks(nbest, sentences, CHUNK_WORDS // torch.get_num_threads())
    for end in in_threads([partial(score, *chunk) for chunk in chunks]):
        progress(end)
    oov_types = {word for text in sentences.texts for word in text.split() if word not in lm.vocab.index}
    if not np.isfinite(log_prob_D).all():
        worst = sentences.texts[int(np.flatnonzero(~np.isfinite(log_prob_D))[0])]
        raise InputError(f"the language model gives {worst[:80]!r} no finite log probability; is the model trained?")
    return LMScores(log_prob_D[sentences.index_H], oov_D[sentences.index_H], frozenset(oov_types))


def _chunks(nbest: NBest, sentences: Sentences, most_words: int) -> list[tuple[int, int]]:
    """Ranges of distinct sentences: as many utterances as have `most_words` words together, at least one."""
    newest_H = np.maximum.accumulate(sentences.index_H)
    ends_U = newest_H[nbest.hyp_starts_U1[1:] - 1] + 1  # sentences known after each utterance
    words_D1 = np.concatenate([[0], np.cumsum([text.count(" ") + 1 for text in sentences.texts])])
    chunks, start, last = [], 0, 0
    for end in ends_U.tolist():
        if last > start and words_D1[end] - words_D1[start] > most_words:
            chunks.append((start, last))
            start = last
        last = end
    return [*chunks, (start, last)]


@dataclass(frozen=True, eq=False)
class Rescored:
    """The lists with their combined scores."""

    table: ScoreTable
    weights: Weights
    score_H: np.ndarray

    @cached_property
    def chosen_U(self) -> np.ndarray:
        """The hypothesis of highest score of each utterance, the first of equals."""
        return self.table.nbest.best(self.score_H)

    def best(self) -> dict[str, str]:
        """utterance -> the words of the best hypothesis."""
        return self.table.nbest.transcripts(self.chosen_U)

    def parts(self, hypothesis: int) -> dict[str, float]:
        """What each term adds to the score of hypothesis h: they sum to `score_H[h]`."""
        table, weights = self.table, self.weights
        found = {ACOUSTIC: float(table.acoustic_H[hypothesis])}
        for name, factor in zip(weights.lms, weights.factors, strict=True):
            scores = table.lms[name]
            found[name] = float(factor * scores.log_prob_H[hypothesis])
            found[f"{name} OOV words"] = float(-factor * weights.oov_penalty * scores.oov_H[hypothesis])
        found["words"] = float(weights.word_penalty * table.nbest.lengths_H[hypothesis])
        return found


def rescore(
    nbest: NBest,
    lms: Mapping[LanguageModel, float],
    word_penalty: float = 0.0,
    oov_penalty: float | None = None,
    mapping: TextMapping = (),
) -> Rescored:
    """Rescore with language models and the factor of each: `rescore(nbest, {lm: 0.7}).best()`."""
    require_acoustic(nbest)
    sentences = distinct_sentences(nbest, mapping)
    names = [f"lm{number}" for number in range(1, len(lms) + 1)]
    table = ScoreTable(nbest, {name: score_lm(nbest, sentences, lm) for name, lm in zip(names, lms, strict=True)})
    penalty = table.default_oov_penalty if oov_penalty is None else oov_penalty
    weights = Weights.from_factors(names, lms.values(), word_penalty, penalty)
    return Rescored(table, weights, table.combine(weights))


def require_acoustic(nbest: NBest) -> None:
    """The lists carry the score that rescoring starts from, or InputError."""
    if ACOUSTIC not in nbest.scores:
        raise InputError(
            f"the n-best lists have no {ACOUSTIC} score (only {', '.join(nbest.scores) or 'none'}); give --{ACOUSTIC} FILE"
        )
