"""One row of a table: perplexity on the test text, weights tuned on the dev lists, word errors on the test lists, times."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trflm.evaluation.effort import Effort
from trflm.evaluation.figures import Figures, figures
from trflm.evaluation.perplexity import perplexity
from trflm.evaluation.second_pass.combine import Rescored, ScoreTable
from trflm.evaluation.second_pass.results import Baselines, decisions, word_errors
from trflm.evaluation.significance import Comparison, compare
from trflm.evaluation.tune import Tuned, tune
from trflm.evaluation.weights import content_hash
from trflm.evaluation.wer import WordErrors
from trflm.experiment.content import model_hash
from trflm.experiment.store import load_model
from trflm.files.parse import parse_json
from trflm.files.records import from_record, to_record
from trflm.files.tensors import write_atomically
from trflm.language_model import LanguageModel
from trflm.reproduce.models import curves, last_epoch, seed_name, training_seconds, unfinished
from trflm.reproduce.plan import Row
from trflm.reproduce.record import CombinedRow, Example, FieldPerplexity, ModelRow, SeedRun, TextPerplexity, WordScores
from trflm.reproduce.scores import NamedLists, Timed, scores_of
from trflm.text import read_corpus

EXAMPLES = 40  # changed utterances kept in the results


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model and its scores of both sets."""

    name: str
    run: Path
    lm: LanguageModel
    hashed: str
    dev: Timed
    test: Timed


@dataclass(frozen=True, eq=False)
class Passed:
    """A second pass over the test lists, with weights tuned on dev."""

    tuned: Tuned
    rescored: Rescored
    errors: WordErrors


class Evaluation:
    """What all rows share: the lists, the test text, where scores are kept, which rows others are compared with, who is told
    about progress; and what was found so far, the models with their scores and the errors of each row."""

    def __init__(
        self,
        dev: NamedLists,
        test: NamedLists,
        text: Path,
        keep: Path,
        seed: int,
        baseline: str,
        rival: str,
        say: Callable[[str], None],
        perplexity_minutes: float = 0.0,  # for the interval of each random field; 0: none
        bf16: bool = False,  # lists are scored in bf16, where the CPU can; perplexities never
    ) -> None:
        self.dev, self.test, self.text, self.keep, self.seed = dev, test, text, keep, seed
        self.baseline, self.rival, self.say, self.perplexity_minutes = baseline, rival, say, perplexity_minutes
        self.bf16 = bf16
        self.baselines = Baselines(test.lists)
        self.models: dict[str, Model] = {}
        self.errors: dict[str, WordErrors] = {}

    def add(self, name: str, run: Path) -> None:
        """Read and score the model of a run, for all rows that it is in."""
        hashed = model_hash(run) + (" bf16" if self.bf16 else "")
        self.models[name] = self.scored(name, run, load_model(run, self.bf16), hashed)

    def scored(self, name: str, run: Path, lm: LanguageModel, hashed: str, in_order: bool = False) -> Model:
        """Every hypothesis of both sets scored by the model, each distinct sentence once."""
        timed = []
        for named in (self.dev, self.test):
            self.say(f"{name}: scoring {named.name}, {len(named.lists.sentences.texts):,} distinct sentences")
            file = self.keep / f"{name}.{named.name}.npz"
            timed.append(scores_of(file, f"{name} {hashed}", named, lm, in_order))
        return Model(name, run, lm, hashed, *timed)

    def second_pass(self, models: Sequence[Model], equal: bool = False) -> Passed:
        """Weights tuned on dev, errors counted on test; with `equal` every model has the same weight."""
        dev = ScoreTable(self.dev.lists.nbest, {model.name: model.dev.scores for model in models})
        test = ScoreTable(self.test.lists.nbest, {model.name: model.test.scores for model in models})
        tuned = tune(dev, self.dev.lists.references, equal=equal)
        rescored = Rescored(test, tuned.weights)
        return Passed(tuned, rescored, word_errors(self.test.lists, rescored.chosen_U))

    def single(self, row: Row, strategies: bool) -> ModelRow:
        """The row of one model."""
        model = self.models[row.name]
        lm, run, passed = model.lm, model.run, self.second_pass([model])
        wer = self.figures(passed.errors)
        recipe = unfinished(run)
        found = ModelRow(
            name=row.name,
            label=row.label,
            paper=row.paper,
            wer=wer,
            dev_wer=passed.tuned.rate,
            weights=passed.tuned.weights,
            scale_curve=tuple(passed.tuned.scale_curve),
            unfinished=f"{last_epoch(run):.1f} of {recipe.run.epochs} epochs" if recipe else None,
            parameters=lm.n_parameters(),
            training_seconds=training_seconds(run),
            rescoring_seconds=model.test.seconds / len(self.test.lists.nbest),
            perplexity=self.perplexity(model),
            perplexity_interval=self.perplexity_interval(model),
            changed=self.examples(passed, lm),
            strategies={"reset": wer, **self.in_order(model)} if strategies else None,
            seeds=self.seeds(row) or None,
            curves=curves(run),
            against_baseline=self.against(self.baseline, row.name, passed.errors),
            against_rival=self.against(self.rival, row.name, passed.errors),
        )
        self.errors[row.name] = passed.errors
        return found

    def combined(self, row: Row) -> CombinedRow:
        """The row of several models, combined log-linearly with weights tuned on dev."""
        models = [self.models[name] for name in row.models]
        passed = self.second_pass(models)
        found = CombinedRow(
            name=row.name,
            label=row.label,
            paper=row.paper,
            wer=self.figures(passed.errors),
            dev_wer=passed.tuned.rate,
            weights=passed.tuned.weights,
            scale_curve=tuple(passed.tuned.scale_curve),
            rescoring_seconds=sum(model.test.seconds for model in models) / len(self.test.lists.nbest),
            changed=self.examples(passed, None),
            equal=self.figures(self.second_pass(models, equal=True).errors),
            against_baseline=self.against(self.baseline, row.name, passed.errors),
            against_rival=self.against(self.rival, row.name, passed.errors),
        )
        self.errors[row.name] = passed.errors
        return found

    def seeds(self, row: Row) -> dict[str, SeedRun]:
        """Those of its further runs that are there."""
        found = {}
        for seed in row.seeds:
            if (name := seed_name(row.name, seed)) in self.models:
                passed = self.second_pass([self.models[name]])
                found[str(seed)] = SeedRun(
                    wer=self.figures(passed.errors),
                    dev_wer=passed.tuned.rate,
                    against_baseline=self.against(self.baseline, row.name, passed.errors),
                )
        return found

    def figures(self, errors: WordErrors) -> Figures:
        return figures(errors, self.seed)

    def against(self, other: str, name: str, errors: WordErrors) -> Comparison | None:
        """The difference to another row, with its tests; None if that row is this one or is not there."""
        if name == other or other not in self.errors:
            return None
        return compare(self.errors[other], errors, self.seed)

    def in_order(self, model: Model) -> dict[str, Figures]:
        """The word errors of a model that reads all hypotheses as one text, in each of its ways to do so."""
        ways = {
            how: self.scored(f"{model.name}@{how}", model.run, lm, model.hashed, in_order=True)
            for how, lm in model.lm.in_order(self.seed).items()
        }
        return {how: self.figures(self.second_pass([way]).errors) for how, way in ways.items()}

    def in_fp32(self, model: Model) -> LanguageModel:
        return load_model(model.run) if self.bf16 else model.lm

    def perplexity(self, model: Model) -> TextPerplexity | None:
        """On the test text: exact, or None for a random field, whose normalisation is an estimate only."""
        if not model.lm.normalised:
            return None
        lm = self.in_fp32(model)
        text = read_corpus(self.text, lm.vocab).sentences.long()
        preserve = lm.in_order().get("preserve")
        return TextPerplexity(
            reset=perplexity(lm, text).perplexity,
            preserve=None if preserve is None else perplexity(preserve, text).perplexity,
        )

    def perplexity_interval(self, model: Model) -> FieldPerplexity | None:
        """Of a random field, if there is time for it; measured once for each model, text and time given."""
        if model.lm.normalised or not self.perplexity_minutes:
            return None
        minutes, seed = self.perplexity_minutes, self.seed
        asked = {"model": model.hashed, "text": content_hash(self.text), "minutes": minutes, "seed": seed}
        file = self.keep / f"{model.name}.perplexity.json"
        if file.exists() and (kept := parse_json(file.read_text(encoding="utf-8"))).get("asked") == asked:
            return from_record(FieldPerplexity, kept["found"])
        self.say(f"{model.name}: perplexity, an interval within {minutes:g} minutes")
        text = read_corpus(self.text, model.lm.vocab).sentences.long()
        measured = perplexity(self.in_fp32(model), text, effort=Effort(minutes, seed=seed), say=self.say)
        names = ("low", "high", "estimate", "how", "minutes", "rounds", "burn_in")
        found = FieldPerplexity(own=measured.perplexity, **{name: getattr(measured, name) for name in names})
        if not measured.interrupted:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, json.dumps({"asked": asked, "found": to_record(found)}).encode())
        return found

    def examples(self, passed: Passed, lm: LanguageModel | None) -> tuple[Example, ...]:
        """The utterances most improved and most harmed against the first hypotheses: what decided, term by term and word by
        word."""
        lists, nbest = self.test.lists, self.test.lists.nbest
        found = decisions(passed.rescored, self.baselines.first, passed.errors)
        place = {utterance: u for u, utterance in enumerate(nbest.utterances)}
        kept = found if len(found) <= EXAMPLES else [*found[: EXAMPLES // 2], *found[-EXAMPLES // 2 :]]
        examples = []
        for decision in kept:
            u = place[decision.utterance]
            pair = int(nbest.hyp_starts_U1[u]), int(passed.rescored.chosen_U[u])
            before, now = (nbest.text(hypothesis) for hypothesis in pair)
            words = None
            if lm is not None:
                words = explain_words(lm, *(lists.sentences.texts[lists.sentences.index_H[h]] for h in pair))
            said = lists.references[decision.utterance]
            texts = {"reference": said, "before": before, "now": now}
            examples.append(Example(**{**vars(decision), **texts}, words=words))
        return tuple(examples)


def explain_words(lm: LanguageModel, before: str, now: str) -> tuple[WordScores, WordScores]:
    """What each word added to the score of its sentence."""
    explanation = lm.explain([before, now])
    end = len(before.split())
    values_N = [round(value, 3) for value in explanation.word_N.double().tolist()]
    return tuple(zip(before.split(), values_N[:end], strict=True)), tuple(zip(now.split(), values_N[end:], strict=True))
