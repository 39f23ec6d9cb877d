"""Score: what a language model says of every hypothesis, each distinct sentence scored once.

Shapes: U utterances, H hypotheses, D distinct sentences.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from trflm.errors import InputError
from trflm.evaluation.nbest import NBest
from trflm.language_model import LanguageModel
from trflm.speed.threads import in_threads
from trflm.text.lengths import PI_FLOOR
from trflm.text.mapping import TextMapping, apply

EMPTY_LOG_PROB = math.log(
    PI_FLOOR
)  # of a sentence without words, in every model: the floor that fields give to lengths not seen
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


@dataclass(frozen=True)
class FirstPass:
    """In the place of a model: a score that the lists carry, such as the recogniser's own language model, which knows all its
    words."""

    name: str

    def scores(self, nbest: NBest) -> LMScores:
        if self.name not in nbest.scores:
            raise InputError(f"the n-best lists have no score {self.name!r}; they have {', '.join(nbest.scores) or 'none'}")
        return LMScores(nbest.scores[self.name], np.zeros(nbest.n_hypotheses, np.int64), frozenset())


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
        places = [place for place in range(start, end) if sentences.texts[place]]
        log_prob_D[start:end], oov_D[start:end] = EMPTY_LOG_PROB, 0
        if places:
            batch = lm.vocab.batch([sentences.texts[place] for place in places])
            log_prob_D[places] = lm.log_prob(batch).double().numpy(force=True)
            oov_D[places] = batch.sum_words((batch.ids_N == 0).long()).numpy(force=True)
        return end

    chunks = [(0, len(sentences.texts))] if at_once else _chunks(nbest, sentences, CHUNK_WORDS // torch.get_num_threads())
    for end in in_threads([partial(score, *chunk) for chunk in chunks]):
        progress(end)
    if not np.isfinite(log_prob_D).all():
        worst = sentences.texts[int(np.flatnonzero(~np.isfinite(log_prob_D))[0])]
        raise InputError(f"the language model gives {worst[:80]!r} no finite log probability; is the model trained?")
    return LMScores(log_prob_D[sentences.index_H], oov_D[sentences.index_H], oov_types(sentences, lm))


def oov_types(sentences: Sentences, lm: LanguageModel) -> frozenset[str]:
    """The words that a model does not know."""
    return frozenset(word for text in sentences.texts for word in text.split() if word not in lm.vocab.index)


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
