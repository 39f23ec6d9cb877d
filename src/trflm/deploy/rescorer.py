"""The Rescorer: language models, their weights and a text mapping, as one object.

    r = trflm.Rescorer.load("second-pass")
    result = r(["the market rose", "the market rows"], acoustic=[-310.2, -309.9])
    result.best, result.order, result.parts

The score of a hypothesis depends on its utterance alone. A Rescorer may be used by several threads at once and after a fork.
If it was loaded from a directory, it may be sent to another process: it is pickled as its path.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from trflm.deploy import directory as stored
from trflm.deploy.directory import short_names
from trflm.errors import InputError
from trflm.evaluation.nbest import ACOUSTIC, NBestList
from trflm.evaluation.second_pass.combine import default_weights
from trflm.evaluation.second_pass.one_list import ListScorer, Model, ScoredList
from trflm.evaluation.second_pass.scores import FirstPass
from trflm.evaluation.weights import TunedWeights, Weights
from trflm.experiment.content import model_hash
from trflm.experiment.store import load_model
from trflm.language_model import LanguageModel
from trflm.ranges import Weight, bounded
from trflm.speed.threads import in_threads
from trflm.text.mapping import apply, parse_mapping

AT_ONCE = 32  # lists a thread scores before the next ones are read


@dataclass(frozen=True)
class WordParts:
    """What each word added to the score through one model, its factor and OOV penalty counted in."""

    words: tuple[str, ...]  # as the model saw them
    added: tuple[float, ...]
    rest: float  # the end of the sentence, or the length of a field


@dataclass(frozen=True)
class Result:
    """The second pass of one list. Numbers of hypotheses count from 0, as they were given."""

    texts: tuple[str, ...]
    scores: tuple[float, ...]  # higher is better
    order: tuple[int, ...]  # hypotheses, best first; equals as they stood
    parts: tuple[Mapping[str, float], ...]  # of each hypothesis, what each term added: they sum to its score
    words: tuple[Mapping[str, WordParts], ...] | None = None  # by model; on request

    @property
    def best(self) -> str:
        """The words of the best hypothesis."""
        return self.texts[self.order[0]]


class Rescorer:
    """Rescore n-best lists: `Rescorer.load(directory)`, or `Rescorer({lm: 0.7}, mapping="ptb")` with the factor of each model.

    Args:
        models: Models (from `trflm.load`, or their paths) and what the log probability of each is multiplied by.
        mapping: How the recogniser's words become the models' words: none, ptb, or steps such as "lower,clitics".
        word_penalty: Added for every word, in nats.
        oov_penalty: Taken off for every word that a model does not know; if not given, each model's own default.
    """

    path: Path | None  # the directory it was loaded from or saved to
    tuned: TunedWeights | None  # how its weights were found, if they were tuned

    @bounded
    def __init__(
        self,
        models: Mapping[LanguageModel | Path | str, Weight],
        *,
        mapping: str = "none",
        word_penalty: Weight = 0.0,
        oov_penalty: Weight | None = None,
    ) -> None:
        loaded = [load_model(lm) if isinstance(lm, Path | str) else lm for lm in models]
        if not loaded:
            raise InputError("a rescorer needs a language model: Rescorer({lm: 0.7})")
        names = short_names([str(lm.origin.path or f"lm{number}") for number, lm in enumerate(loaded, 1)])
        by_name: dict[str, Model] = dict(zip(names, loaded, strict=True))
        weights = default_weights(by_name, list(models.values()), word_penalty, oov_penalty)
        self._set(by_name, weights, mapping)

    def _set(self, models: Mapping[str, Model], weights: Weights, mapping: str) -> None:
        self.models, self.weights, self.mapping = dict(models), weights, mapping
        self.scorer = ListScorer(self.models, weights, parse_mapping(mapping))
        self.path, self.tuned, self.bf16, self.device, self._sha256 = None, None, False, "cpu", None

    @classmethod
    def of(cls, models: Mapping[str, Model], weights: Weights, mapping: str = "none") -> "Rescorer":
        """From named models (a `FirstPass` is a score that the lists carry) and their weights."""
        made = cls.__new__(cls)
        made._set(models, weights, mapping)
        return made

    @classmethod
    def load(cls, path: Path | str, bf16: bool = False, device: str = "cpu") -> "Rescorer":
        """The Rescorer of a directory that `trf tune --out DIR` or `save` made. Its content is checked against its hashes.

        With `bf16` random fields and LSTMs multiply in bf16, on a CPU that has instructions for it; `device` is where networks
        compute.
        """
        path = Path(path)
        found = stored.read(path)
        models: dict[str, Model] = {}
        for name, entry in found.models.items():
            if entry.score is not None:
                models[name] = FirstPass(entry.score)
            else:
                models[name] = load_model(stored.inside(path, entry.path or ""), bf16, device)
        made = cls.of(models, found.weights, stored.located(found.mapping, path))
        made.path, made.tuned, made.bf16, made.device = path, stored.tuned_note(path), bf16, device
        made._sha256 = found.identity(stored.table_hashes(made.mapping))
        return made

    def save(self, path: Path | str, tuned: TunedWeights | None = None) -> None:
        """Make the directory: a copy of each model, weights, mapping, hashes. One that exists is refused."""
        places: dict[str, Path | FirstPass] = {}
        for name, model in self.models.items():
            if isinstance(model, FirstPass):
                places[name] = model
            elif model.origin.path is None:
                raise InputError(f"the model {name} was not loaded from a file; give one that trflm.load returned")
            else:
                places[name] = model.origin.path
        path, tuned = Path(path), tuned or self.tuned
        stored.write(path, places, self.weights, self.mapping, tuned)
        self.path, self.tuned = path, tuned
        self._sha256 = stored.read(path).identity(stored.table_hashes(self.mapping))

    @property
    def sha256(self) -> str | None:
        """One hash of all that a score depends on; None for a Rescorer that is in no directory."""
        return self._sha256

    def __call__(
        self,
        texts: Sequence[str] | str,
        acoustic: Sequence[float] | None = None,
        *,
        scores: Mapping[str, Sequence[float]] | None = None,
        words: bool = False,
    ) -> Result:
        """Rescore the hypotheses of one utterance.

        Args:
            texts: What may have been said. A single string is one hypothesis.
            acoustic: The recogniser's score of each, a natural log, higher is better. Without it models decide alone.
            scores: Further scores by name, for a Rescorer that was tuned with `--lm score:NAME`.
            words: Also tell what each word added.
        """
        texts = [texts] if isinstance(texts, str) else list(texts)
        if not texts:
            raise InputError("there is no hypothesis; give at least one")
        columns = {**(scores or {}), **({} if acoustic is None else {ACOUSTIC: acoustic})}
        arrays = {name: np.array(values, np.float64) for name, values in columns.items()}
        for name, values in arrays.items():
            if values.shape != (len(texts),) or not np.isfinite(values).all():
                raise InputError(f"the score {name!r} must be {len(texts)} finite numbers, one for each hypothesis")
        nbest = NBestList("", [" ".join(text.split()) for text in texts], arrays)
        scored = self.scorer(nbest)
        every = range(len(texts))
        return Result(
            texts=tuple(nbest.texts),
            scores=tuple(scored.score_K.tolist()),
            order=tuple(scored.order),
            parts=tuple(scored.parts(k) for k in every),
            words=self.explain(nbest.texts) if words else None,
        )

    def rescore(self, lists: Iterable[NBestList]) -> Iterator[ScoredList]:
        """Rescore lists one after another, in order; a few are read ahead, one thread each. Memory does not grow."""
        lists = iter(lists)
        while some := list(islice(lists, AT_ONCE * torch.get_num_threads())):
            parts = [some[start : start + AT_ONCE] for start in range(0, len(some), AT_ONCE)]
            for scored in in_threads([lambda part=part: list(self.scorer.every(part)) for part in parts]):
                yield from scored

    def explain(self, texts: Sequence[str]) -> tuple[dict[str, WordParts], ...]:
        """Of each sentence what each word adds to its score, by model. One without words has nothing to tell."""
        mapped = [apply(self.scorer.mapping, text.split()) for text in texts]
        spoken = [k for k, words in enumerate(mapped) if words]
        found: list[dict[str, WordParts]] = [{} for _ in texts]
        for (name, model), factor in zip(self.models.items(), self.weights.factors, strict=True):
            if isinstance(model, FirstPass) or not spoken:
                continue
            explained = model.explain([" ".join(mapped[k]) for k in spoken])
            penalty, known = self.weights.penalty_of(name), model.vocab.index
            value_N, start = explained.word_N.tolist(), 0
            for k, rest in zip(spoken, explained.rest_B.tolist(), strict=True):
                words, end = mapped[k], start + len(mapped[k])
                added = [v - penalty * (known.get(w, 0) == 0) for v, w in zip(value_N[start:end], words, strict=True)]
                found[k][name] = WordParts(tuple(words), tuple(factor * v for v in added), factor * rest)
                start = end
        return tuple(found)

    def __reduce__(self):
        if self.path is None:
            raise TypeError("a Rescorer is pickled as its directory: save it first, or load one")
        return _load_same, (str(self.path.resolve()), self._sha256, self.bf16, self.device)

    def __repr__(self) -> str:
        where = f" of {self.path}" if self.path else ""
        factors = ", ".join(f"{name}: {f:.4g}" for name, f in zip(self.models, self.weights.factors, strict=True))
        return f"<Rescorer{where}: {factors}; mapping {self.mapping}>"


def content_of(models: Mapping[str, Model]) -> dict[str, str]:
    """name -> hash of the content, of the models that were loaded from a file."""
    paths = {name: model.origin.path for name, model in models.items() if not isinstance(model, FirstPass)}
    return {name: model_hash(path) for name, path in paths.items() if path is not None}


def save_tuned(out: Path, models: Mapping[str, Model], tuned: TunedWeights) -> None:
    """The directory of what was tuned; models are named by the last part of their path."""
    short = dict(zip(models, short_names(list(models)), strict=True))
    hashes = {short[name]: content for name, content in (tuned.models or {}).items()}
    tuned = replace(tuned, weights=tuned.weights.renamed(short), models=hashes)
    Rescorer.of({short[name]: model for name, model in models.items()}, tuned.weights, tuned.mapping).save(out, tuned)


def _load_same(path: str, sha256: str | None, bf16: bool, device: str) -> Rescorer:
    """In another process: the same directory, unchanged."""
    loaded = Rescorer.load(path, bf16, device)
    if loaded.sha256 != sha256:
        raise InputError(f"{path}: has changed since the Rescorer was sent here")
    return loaded
