"""Arguments that several commands share: n-best lists with their scores, and the models that score them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from trflm.errors import InputError

if TYPE_CHECKING:
    from trflm.evaluation.nbest import NBest, NBestList, Report
    from trflm.evaluation.rescore import ScoreTable
    from trflm.language_model import LanguageModel

FIRST_PASS = "score:"  # --lm score:NAME takes a score that the lists carry as a language model


@dataclass(frozen=True)
class Lists:
    """N-best lists and their scores."""

    nbest: Path
    """N-best lists: Kaldi text (UTT-N words), .jsonl, .json (ESPnet, mlm-scoring) or a directory of SRILM lists; .gz too."""
    acoustic: Path | None = None
    """Acoustic scores of a Kaldi archive (UTT-N value): natural-log likelihoods, higher is better."""
    acoustic_is_cost: bool = False
    """The acoustic scores are costs: lower is better."""
    score: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=FILE")] = ()
    """Further score files of a Kaldi archive, each with the name it gets."""
    cost: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = ()
    """Names of further scores that are costs."""

    def files(self) -> dict[str, Path]:
        """Role -> file, for all that is read."""
        files = {"nbest": self.nbest}
        if self.acoustic is not None:
            files["acoustic"] = self.acoustic
        return files | self._further()

    def read(self, report: Report | None = None) -> Iterator[NBestList]:
        """The lists, one utterance at a time."""
        from trflm.evaluation.formats import read_lists
        from trflm.evaluation.nbest import ACOUSTIC, refuse

        scores = {} if self.acoustic is None else {ACOUSTIC: self.acoustic}
        costs = (*((ACOUSTIC,) if self.acoustic_is_cost else ()), *self.cost)
        return read_lists(self.nbest, scores | self._further(), costs, report or refuse)

    def _further(self) -> dict[str, Path]:
        from trflm.evaluation.formats.fields import SCORE_NAME

        further: dict[str, Path] = {}
        for item in self.score:
            name, _, file = item.partition("=")
            if not SCORE_NAME.fullmatch(name) or not file or name in further or name in {"nbest", "acoustic", "ref"}:
                raise InputError(f"--score {item}: write NAME=FILE, each name once and none of nbest, acoustic, ref")
            further[name] = Path(file)
        return further


def note(text: str) -> None:
    """A warning or a word on progress: to stderr, so that pipes carry results only."""
    print(f"trf: {text}", file=sys.stderr, flush=True)


def load_models(names: Sequence[str], bf16: bool = False) -> dict[str, LanguageModel | None]:
    """name -> model, all of them before anything is scored; None for a score of the first pass (`score:NAME`)."""
    from trflm.experiment.store import load_model

    if not names:
        raise InputError("give at least one --lm MODEL")
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--lm {name}: given twice; give each model once")
    return {name: None if name.startswith(FIRST_PASS) else load_model(Path(name), bf16) for name in names}


def score_table(nbest: NBest, models: dict[str, LanguageModel | None], mapping: str, quiet: bool) -> ScoreTable:
    """Every hypothesis scored by every model."""
    from trflm.evaluation.rescore import LMScores, ScoreTable, distinct_sentences, score_lm
    from trflm.text.mapping import parse_mapping

    scores = {
        name: LMScores.from_first_pass(nbest, name.removeprefix(FIRST_PASS)) for name, model in models.items() if model is None
    }
    if len(scores) < len(models):
        sentences = distinct_sentences(nbest, parse_mapping(mapping))
        for name, model in models.items():
            if model is not None:
                scores[name] = score_lm(nbest, sentences, model, _progress(name, len(sentences.texts), quiet))
    return ScoreTable(nbest, {name: scores[name] for name in models})


def _progress(name: str, total: int, quiet: bool) -> Callable[[int], None]:
    shown = -1

    def show(done: int) -> None:
        nonlocal shown
        percent = 100 * done // total
        if not quiet and percent // 10 > shown // 10:
            shown = percent
            note(f"{name}: {done:,} of {total:,} sentences scored")

    return show
