"""Arguments that several commands share: n-best lists with their scores, and the models that score them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from trflm.cli.options import File
from trflm.errors import InputError
from trflm.files.remote import located

if TYPE_CHECKING:
    from trflm.evaluation.second_pass.files import ListFiles
    from trflm.evaluation.second_pass.scores import FirstPass
    from trflm.language_model import LanguageModel

FIRST_PASS = "score:"  # --lm score:NAME takes a score that the lists carry as a language model


@dataclass(frozen=True)
class Lists:
    """N-best lists and their scores."""

    nbest: File
    """N-best lists: a file, .gz too, a directory, an address (s3://...), or - for stdin."""
    format: str = "auto"
    """Of the lists: auto looks at their content; or kaldi, srilm, jsonl, parquet, espnet, espnet2, mlm, nemo, hypr."""
    acoustic: File | None = None
    """Acoustic scores of a Kaldi archive (UTT-N value): natural-log likelihoods, higher is better."""
    acoustic_name: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Which of several scores inside the lists is the recogniser's."""
    field: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ROLE=NAME")] = ()
    """Names of fields in JSON: utterance=utt_id, hypotheses=nbest, text=..., reference=...; of NeMo's lists, depth=N."""
    acoustic_is_cost: bool = False
    """The acoustic scores are costs: lower is better."""
    score: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=FILE")] = ()
    """Further score files of a Kaldi archive, each with the name it gets."""
    cost: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = ()
    """Names of further scores that are costs."""

    def files(self, ref: str | None = None) -> ListFiles:
        """The files that these arguments name, and the one of what was said."""
        from trflm.evaluation.formats.fields import SCORE_NAME
        from trflm.evaluation.nbest import ACOUSTIC
        from trflm.evaluation.second_pass.files import ListFiles

        scores = {} if self.acoustic is None else {ACOUSTIC: located(self.acoustic)}
        for item in self.score:
            name, _, file = item.partition("=")
            if not SCORE_NAME.fullmatch(name) or not file or name in {"nbest", ACOUSTIC, "ref", *scores}:
                raise InputError(f"--score {item}: write NAME=FILE, each name once and none of nbest, acoustic, ref")
            scores[name] = located(file)
        costs = (*((ACOUSTIC,) if self.acoustic_is_cost else ()), *self.cost)
        fields = {} if self.acoustic_name is None else {ACOUSTIC: self.acoustic_name}
        for item in self.field:
            role, equals, name = item.partition("=")
            if not equals or role not in {"utterance", "hypotheses", "text", "reference", "depth"}:
                raise InputError(f"--field {item}: write ROLE=NAME; roles are utterance, hypotheses, text, reference, depth")
            fields[role] = name
        said = None if ref is None else located(ref)
        return ListFiles(located(self.nbest), scores, costs, said, self.format, fields)


def note(text: str) -> None:
    """A warning or a word on progress: to stderr, so that pipes carry results only."""
    print(f"trf: {text}", file=sys.stderr, flush=True)


def load_models(names: Sequence[str], bf16: bool = False, device: str = "cpu") -> dict[str, LanguageModel | FirstPass]:
    """name -> model, all of them before anything is scored; `score:NAME` is a score of the first pass."""
    from trflm.evaluation.second_pass.scores import FirstPass
    from trflm.experiment.store import load_model

    if not names:
        raise InputError("give at least one --lm MODEL")
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--lm {name}: given twice; give each model once")
    return {
        name: FirstPass(name.removeprefix(FIRST_PASS)) if name.startswith(FIRST_PASS) else load_model(Path(name), bf16, device)
        for name in names
    }


def tell(name: str, total: int) -> Callable[[int], None]:
    """A line for each tenth of the sentences that a model has scored."""
    shown = -1

    def show(done: int) -> None:
        nonlocal shown
        percent = 100 * done // total
        if percent // 10 > shown // 10:
            shown = percent
            note(f"{name}: {done:,} of {total:,} sentences scored")

    return show
