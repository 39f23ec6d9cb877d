"""One row of a table: perplexity on the test text, weights tuned on the dev lists, word errors on the test lists, times."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trflm.evaluation.changes import changes
from trflm.evaluation.effort import Effort
from trflm.evaluation.perplexity import perplexity
from trflm.evaluation.rescore import Rescored, ScoreTable
from trflm.evaluation.significance import bootstrap_interval, compare
from trflm.evaluation.tune import tune
from trflm.evaluation.weights import content_hash
from trflm.evaluation.wer import WordErrors, word_error_rate
from trflm.experiment.store import load_model
from trflm.files.tensors import write_atomically
from trflm.language_model import LanguageModel
from trflm.reproduce.models import last_epoch, training_seconds, unfinished
from trflm.reproduce.scores import Lists, Timed, model_hash, scores_of
from trflm.text import read_corpus

EXAMPLES = 40  # changed utterances kept in the results


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model and its scores of both sets."""

    name: str
    run: Path
    lm: LanguageModel
    dev: Timed
    test: Timed


class Evaluation:
    """What all rows share: the lists, the test text, where scores are kept, who is told about progress."""

    def __init__(
        self,
        dev: Lists,
        test: Lists,
        text: Path,
        keep: Path,
        seed: int,
        say: Callable[[str], None],
        perplexity_minutes: float = 0.0,
    ) -> None:
        self.dev, self.test, self.text, self.keep, self.seed, self.say = dev, test, text, keep, seed, say
        self.perplexity_minutes = perplexity_minutes
        nbest = test.nbest
        self.first = word_error_rate(nbest.transcripts(nbest.hyp_starts_U1[:-1]), test.references)
        self.without_lm = word_error_rate(nbest.transcripts(nbest.best(nbest.scores["acoustic"])), test.references)

    def scored(self, name: str, run: Path, lm: LanguageModel, in_order: bool = False) -> Model:
        """Every hypothesis of both sets scored by the model, each distinct sentence once."""
        hashed = f"{name} {model_hash(run)}"
        timed = []
        for lists in (self.dev, self.test):
            self.say(f"{name}: scoring {lists.name}, {len(lists.sentences.texts):,} distinct sentences")
            file = self.keep / f"{name}.{lists.name}.npz"
            timed.append(scores_of(file, hashed, lists, lm, in_order))
        return Model(name, run, lm, *timed)

    def word_errors(self, models: list[Model]) -> tuple[dict[str, Any], WordErrors, Rescored]:
        """Weights tuned on dev, errors counted on test."""
        dev = ScoreTable(self.dev.nbest, {model.name: model.dev.scores for model in models})
        test = ScoreTable(self.test.nbest, {model.name: model.test.scores for model in models})
        tuned = tune(dev, self.dev.references)
        rescored = Rescored(test, tuned.weights, test.combine(tuned.weights))
        errors = word_error_rate(rescored.best(), self.test.references)
        record = {
            "wer": self.figures(errors),
            "dev_wer": tuned.rate,
            "weights": asdict(tuned.weights),
            "scale_curve": tuned.scale_curve,
        }
        return record, errors, rescored

    def figures(self, errors: WordErrors) -> dict[str, Any]:
        return {**errors.summary(), "interval": asdict(bootstrap_interval(errors, self.seed))}

    def single(self, name: str, run: Path, strategies: bool) -> tuple[dict[str, Any], Model, WordErrors]:
        """The row of one model."""
        lm = load_model(run)
        model = self.scored(name, run, lm)
        record, errors, rescored = self.word_errors([model])
        if recipe := unfinished(run):
            record["unfinished"] = f"{last_epoch(run):.1f} of {recipe.run.epochs} epochs"
        record |= {
            "parameters": lm.n_parameters(),
            "training_seconds": training_seconds(run),
            "rescoring_seconds": model.test.seconds / len(self.test.nbest),
            "perplexity": self.perplexity(name, run, lm),
            "changed": self.changed(errors, rescored, lm),
        }
        if strategies:
            record["strategies"] = {"reset": record["wer"]}
            for how, strategy in lm.in_order(self.seed).items():
                found, _, _ = self.word_errors([self.scored(f"{name}@{how}", run, strategy, in_order=True)])
                record["strategies"][how] = found["wer"]
        return record, model, errors

    def combined(self, models: list[Model]) -> tuple[dict[str, Any], WordErrors]:
        """The row of several models, combined log-linearly with weights tuned on dev."""
        record, errors, rescored = self.word_errors(models)
        record["rescoring_seconds"] = sum(model.test.seconds for model in models) / len(self.test.nbest)
        record["changed"] = self.changed(errors, rescored, None)
        return record, errors

    def perplexity(self, name: str, run: Path, lm: LanguageModel) -> dict[str, Any] | None:
        """On the test text: exact, or of a random field an interval; None if no time is given for that."""
        if not lm.normalised:
            return self.interval(name, run, lm) if self.perplexity_minutes else None
        text = read_corpus(self.text, lm.vocab).sentences.long()
        found = {"reset": perplexity(lm, text).perplexity}
        if "preserve" in lm.in_order():
            found["preserve"] = perplexity(lm.in_order()["preserve"], text).perplexity
        return found

    def interval(self, name: str, run: Path, lm: LanguageModel) -> dict[str, Any]:
        """Low, high and how; measured once for each model, text and time given."""
        asked = {
            "model": model_hash(run),
            "text": content_hash(self.text),
            "minutes": self.perplexity_minutes,
            "seed": self.seed,
        }
        file = self.keep / f"{name}.perplexity.json"
        if file.exists() and (kept := json.loads(file.read_text(encoding="utf-8")))["asked"] == asked:
            return kept["found"]
        self.say(f"{name}: perplexity, an interval within {self.perplexity_minutes:g} minutes")
        text, effort = read_corpus(self.text, lm.vocab).sentences.long(), Effort(self.perplexity_minutes, seed=self.seed)
        measured = perplexity(lm, text, effort=effort, say=self.say)
        found = {key: getattr(measured, key) for key in ("low", "high", "estimate", "how", "minutes", "rounds", "burn_in")}
        found["own"] = measured.perplexity
        if not measured.interrupted:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, json.dumps({"asked": asked, "found": found}).encode())
        return found

    def changed(self, errors: WordErrors, rescored: Rescored, lm: LanguageModel | None) -> list[dict[str, Any]]:
        """The utterances most improved and most harmed against the first hypotheses: what decided, term by term and word by
        word."""
        found = changes(self.first, errors)
        place = {utterance: u for u, utterance in enumerate(self.test.nbest.utterances)}
        kept = found if len(found) <= EXAMPLES else [*found[: EXAMPLES // 2], *found[-EXAMPLES // 2 :]]
        records = []
        for change in kept:
            u = place[change.utterance]
            before, now = int(self.test.nbest.hyp_starts_U1[u]), int(rescored.chosen_U[u])
            parts_before, parts_now = rescored.parts(before), rescored.parts(now)
            record = {
                **asdict(change),
                "reference": self.test.references[change.utterance],
                "before": self.test.nbest.text(before),
                "now": self.test.nbest.text(now),
                "score_gains": {term: parts_now[term] - parts_before[term] for term in parts_now},
            }
            if lm is not None:
                texts = [self.test.sentences.texts[self.test.sentences.index_H[h]] for h in (before, now)]
                record["words"] = explain_words(lm, texts)
            records.append(record)
        return records


def explain_words(lm: LanguageModel, texts: list[str]) -> list[list[tuple[str, float]]]:
    """What each word added to the score of its sentence."""
    explanation = lm.explain(texts)
    values = np.split(explanation.word_N.double().numpy(force=True), np.cumsum(explanation.batch.lengths_B.tolist())[:-1])
    return [
        [(word, round(float(value), 3)) for word, value in zip(text.split(), of_text, strict=True)]
        for text, of_text in zip(texts, values, strict=True)
    ]


def against(evaluation: Evaluation, baseline: WordErrors, errors: WordErrors) -> dict[str, Any]:
    """The difference of two rows, with its tests."""
    return asdict(compare(baseline, errors, evaluation.seed))
