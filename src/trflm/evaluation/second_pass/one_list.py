"""Score one list: the whole second pass of an utterance. Nothing here depends on any other utterance.

    score = acoustic + sum_k factor_k * (LM_k - oov_penalty_k * OOV_k) + word_penalty * words

Each list is given to a model by itself, because products of matrices have another last bit in another batch. Models that only
look up and add (`batch_free`) take several lists in one call, which is faster for short ones.

Shapes: K hypotheses of one list, D distinct sentences of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trflm.errors import InputError
from trflm.evaluation.nbest import ACOUSTIC, TIE, NBestList, check_acoustic
from trflm.evaluation.second_pass.scores import EMPTY_LOG_PROB, FirstPass
from trflm.evaluation.weights import Weights
from trflm.language_model import LanguageModel
from trflm.text.mapping import TextMapping, apply_to_all

Model = LanguageModel | FirstPass


@dataclass(frozen=True, eq=False)
class ListScores:
    """What one model says of the hypotheses of one list."""

    log_prob_K: np.ndarray
    oov_K: np.ndarray  # words it does not know
    unknown: tuple[str, ...] = ()  # which they are, each once


@dataclass(frozen=True, eq=False)
class ScoredList:
    """A list with all its scores."""

    nbest: NBestList
    lms: Mapping[str, ListScores]
    weights: Weights

    @cached_property
    def words_K(self) -> np.ndarray:
        """The words of each hypothesis, the recogniser's own."""
        return np.array([text.count(" ") + 1 if text else 0 for text in self.nbest.texts])

    @cached_property
    def acoustic_K(self) -> np.ndarray:
        """Zeros if the list has no scores at all."""
        return self.nbest.scores[ACOUSTIC] if ACOUSTIC in self.nbest.scores else np.zeros(len(self.nbest))

    @cached_property
    def score_K(self) -> np.ndarray:
        total_K = self.acoustic_K + self.weights.word_penalty * self.words_K
        for name, factor in zip(self.weights.lms, self.weights.factors, strict=True):
            scores = self.lms[name]
            total_K = total_K + factor * (scores.log_prob_K - self.weights.penalty_of(name) * scores.oov_K)
        return total_K

    @cached_property
    def chosen(self) -> int:
        """The hypothesis of highest score, the first of those within TIE of it."""
        return int((self.score_K >= self.score_K.max() - TIE).argmax())

    @property
    def best(self) -> str:
        return self.nbest.texts[self.chosen]

    @property
    def order(self) -> list[int]:
        """The chosen one, then the others by falling score, equals as they stood."""
        falling = np.argsort(-self.score_K, kind="stable").tolist()
        return [self.chosen, *(k for k in falling if k != self.chosen)]

    def parts(self, k: int) -> dict[str, float]:
        """What each term adds to the score of hypothesis k: they sum to `score_K[k]`."""
        found = {ACOUSTIC: float(self.acoustic_K[k])}
        for name, factor in zip(self.weights.lms, self.weights.factors, strict=True):
            scores = self.lms[name]
            found[name] = float(factor * scores.log_prob_K[k])
            found[f"{name} OOV words"] = float(0.0 - factor * self.weights.penalty_of(name) * scores.oov_K[k])
        found["words"] = float(self.weights.word_penalty * self.words_K[k])
        return found

    def gains(self) -> dict[str, float]:
        """By how much the choice is better than the first of the list, term by term, in nats."""
        before, now = self.parts(0), self.parts(self.chosen)
        return {term: now[term] - before[term] for term in now}


@dataclass(frozen=True, eq=False)
class ListScorer:
    """Language models, their weights, and the mapping to their words."""

    models: Mapping[str, Model]
    weights: Weights
    mapping: TextMapping = ()

    def __call__(self, nbest: NBestList) -> ScoredList:
        return next(self.every([nbest]))

    def every(self, lists: Sequence[NBestList]) -> Iterator[ScoredList]:
        """Several lists, each scored as if it were alone."""
        every = [_Sentences.of(nbest, self.mapping) for nbest in lists]
        scores = {name: _scores(model, name, lists, every) for name, model in self.models.items()}
        for u, nbest in enumerate(lists):
            if not nbest.texts:
                raise InputError(f'utterance "{nbest.utterance}" has no hypotheses; leave it out')
            check_acoustic(nbest.scores, f'utterance "{nbest.utterance}" has')
            yield ScoredList(nbest, {name: of[u] for name, of in scores.items()}, self.weights)


@dataclass(frozen=True, eq=False)
class _Sentences:
    """The distinct sentences of a list as models see them; one without words is not among them."""

    texts: list[str]  # [D]
    index_K: list[int]  # which of them each hypothesis is; D for one without words

    @classmethod
    def of(cls, nbest: NBestList, mapping: TextMapping) -> "_Sentences":
        number: dict[str, int] = {}
        mapped = nbest.texts
        if mapping:
            mapped = [" ".join(words) for words in apply_to_all(mapping, [text.split() for text in nbest.texts])]
        index_K = [number.setdefault(text, len(number)) if text else -1 for text in mapped]
        return cls(list(number), [len(number) if d < 0 else d for d in index_K])


def _scores(model: Model, name: str, lists: Sequence[NBestList], every: Sequence[_Sentences]) -> list[ListScores]:
    if isinstance(model, FirstPass):
        return [_first_pass(model, nbest) for nbest in lists]
    if model.batch_free:
        texts = [text for sentences in every for text in sentences.texts]
        scored = _score(model, name, texts) if texts else (np.empty(0), np.empty(0, np.int64))
        ends = np.cumsum([len(sentences.texts) for sentences in every])[:-1]
        parts: Iterable = zip(*(np.split(column, ends) for column in scored), strict=True)
    else:
        parts = (_score(model, name, sentences.texts) for sentences in every)
    found = []
    for sentences, (log_prob_D, oov_D) in zip(every, parts, strict=True):
        index_K = np.array(sentences.index_K)
        log_prob_D1, oov_D1 = np.append(log_prob_D, EMPTY_LOG_PROB), np.append(oov_D, 0)
        unknown = _unknown(model, sentences.texts, oov_D) if oov_D.any() else ()
        found.append(ListScores(log_prob_D1[index_K], oov_D1[index_K], unknown))
    return found


def _unknown(lm: LanguageModel, texts: Sequence[str], oov_D: np.ndarray) -> tuple[str, ...]:
    known = lm.vocab.index
    words = dict.fromkeys(" ".join([texts[d] for d in np.flatnonzero(oov_D).tolist()]).split())
    return tuple(word for word in words if known.get(word, 0) == 0)


def _score(lm: LanguageModel, name: str, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """([D] log p, [D] unknown words) of these sentences, in one call."""
    if not texts:
        return np.empty(0), np.empty(0, np.int64)
    batch = lm.vocab.batch(texts)
    log_prob_D = lm.log_prob(batch).double().numpy(force=True)
    if not np.isfinite(log_prob_D).all():
        worst = texts[int(np.flatnonzero(~np.isfinite(log_prob_D))[0])]
        raise InputError(f"the language model {name} gives {worst[:80]!r} no finite log probability; is the model trained?")
    unknown_N = batch.ids_N.numpy() == 0
    oov_D = np.zeros(len(texts), np.int64)
    if unknown_N.any():
        np.add.at(oov_D, batch.sentence_N.numpy()[unknown_N], 1)
    return log_prob_D, oov_D


def _first_pass(model: FirstPass, nbest: NBestList) -> ListScores:
    if model.name not in nbest.scores:
        known = ", ".join(nbest.scores) or "none"
        raise InputError(f'utterance "{nbest.utterance}" has no score {model.name!r}; it has {known}')
    return ListScores(nbest.scores[model.name], np.zeros(len(nbest), np.int64))
