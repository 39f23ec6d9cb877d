"""A request and a Rescorer in, an answer out, as plain dicts that become JSON. Each list is scored by itself.

Shapes: K hypotheses of a list.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import trflm
from trflm.deploy.directory import named
from trflm.deploy.rescorer import Rescorer, WordParts
from trflm.errors import InputError, printable
from trflm.evaluation.alignment import Alignment, align, word_errors
from trflm.evaluation.layout import pairs
from trflm.evaluation.nbest import ACOUSTIC, NBestList
from trflm.evaluation.second_pass.one_list import ListScorer, ListScores
from trflm.evaluation.second_pass.scores import FirstPass
from trflm.serve.errors import RequestError, TooLargeError
from trflm.serve.messages import ExplainRequest, RescoreRequest, ScoreRequest
from trflm.serve.settings import Limits, Settings

Answer = dict[str, Any]


def rescore(rescorer: Rescorer, request: RescoreRequest, limits: Limits) -> Answer:
    """The second pass of one list."""
    texts = checked(request.hypotheses, limits)
    nbest = NBestList(request.id or "", texts, _columns(request, len(texts)))
    try:
        with np.errstate(over="ignore"):  # seen below
            scored = rescorer.scorer(nbest)
            score_K = scored.score_K
    except InputError as error:
        raise RequestError(printable(error)) from error
    if not np.isfinite(score_K).all():
        raise RequestError("the scores are too large to be added; give natural logs")
    every = range(len(texts))
    answer: Answer = {
        "id": request.id,
        "best": scored.best,
        "order": scored.order,
        "hypotheses": texts,
        "scores": score_K.tolist(),
        "parts": [scored.parts(k) for k in every],
        "lms": _by_model(scored.lms),
        "acoustic": scored.acoustic_K.tolist(),
        "n_words": scored.words_K.tolist(),
    }
    if request.words:
        answer["words"] = [_words(of) for of in rescorer.explain(texts)]
    if request.reference is not None:
        (reference,) = checked([request.reference], limits, "the reference")
        answer["errors"] = {
            "reference": len(reference.split()),
            "first": _errors(align(reference, texts[0])),
            "best": _errors(align(reference, scored.best)),
            "each": word_errors(reference, texts).tolist(),
        }
    return answer


def score(rescorer: Rescorer, request: ScoreRequest, limits: Limits) -> Answer:
    """What each model says of each sentence; the scores that lists carry are none of these."""
    models = {name: model for name, model in rescorer.models.items() if not isinstance(model, FirstPass)}
    scorer = ListScorer(models, rescorer.weights, rescorer.scorer.mapping)
    return {"lms": _by_model(scorer(NBestList("", checked(request.sentences, limits), {})).lms)}


def explain(rescorer: Rescorer, request: ExplainRequest, limits: Limits) -> Answer:
    """What each word adds to the score of its sentence."""
    return {"words": [_words(of) for of in rescorer.explain(checked(request.hypotheses, limits))]}


def about(rescorer: Rescorer, settings: Settings) -> Answer:
    """What the service has loaded, and what it allows."""
    weights, limits = rescorer.weights, settings.limits
    return {
        "version": trflm.__version__,
        "sha256": rescorer.sha256,
        "mapping": named(rescorer.mapping),
        "weights": {
            "acoustic": 1.0,
            "word_penalty": weights.word_penalty,
            "lms": {
                name: {"factor": factor, "oov_penalty": weights.penalty_of(name)}
                for name, factor in zip(weights.lms, weights.factors, strict=True)
            },
        },
        "limits": {
            "body": limits.body,
            "hypotheses": limits.hypotheses,
            "words": limits.words,
            "concurrency": settings.threads + settings.queue,
        },
    }


def checked(texts: Sequence[str], limits: Limits, what: str = "hypothesis") -> list[str]:
    """Their words separated by one blank; too many of either are refused."""
    if len(texts) > limits.hypotheses:
        raise TooLargeError(f"{len(texts):,} sentences are more than the {limits.hypotheses:,} that are allowed; send fewer")
    found = []
    for k, text in enumerate(texts):
        words = text.split()
        if len(words) > limits.words:
            where = what if len(texts) == 1 else f"{what} {k}"
            raise TooLargeError(f"{where} has {len(words):,} words, more than the {limits.words:,} that are allowed; divide it")
        found.append(" ".join(words))
    return found


def _columns(request: RescoreRequest, size: int) -> dict[str, np.ndarray]:
    """The scores of the list by name, each [K]."""
    columns = dict(request.scores or {})
    if request.acoustic is not None:
        if ACOUSTIC in columns:
            raise RequestError(f"{ACOUSTIC} stands beside the hypotheses and under scores; give it once")
        columns[ACOUSTIC] = request.acoustic
    if columns and ACOUSTIC not in columns:
        raise RequestError(f"there are the scores {printable(', '.join(columns), 200)}, but no {ACOUSTIC}; give it too")
    for name, values in columns.items():
        if len(values) != size:
            raise RequestError(
                f"there are {size} hypotheses and {len(values)} scores {printable(name, 100)!r}; give one for each"
            )
    return {name: np.array(values, np.float64) for name, values in columns.items()}


def _by_model(lms: Mapping[str, ListScores]) -> Answer:
    return {name: {"log_prob": of.log_prob_K.tolist(), "oov": of.oov_K.tolist()} for name, of in lms.items()}


def _words(by_model: Mapping[str, WordParts]) -> Answer:
    return {name: {"words": of.words, "added": of.added, "rest": of.rest} for name, of in by_model.items()}


def _errors(found: Alignment) -> Answer:
    counts = {"substitutions": found.substitutions, "insertions": found.insertions, "deletions": found.deletions}
    return {**counts, "errors": sum(counts.values()), "alignment": pairs(found)}
