"""`trf doctor`: what is wrong with lists, references and models together, before it costs anything."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from trflm.cli.lists import Lists, load_models, note
from trflm.cli.options import Threads, set_up

if TYPE_CHECKING:
    from trflm.evaluation.doctor import Examination
    from trflm.evaluation.second_pass.files import ListFiles
    from trflm.evaluation.second_pass.one_list import Model
    from trflm.text.mapping import TextMapping


def doctor(
    lists: Annotated[Lists, tyro.conf.arg(name="")],
    *,
    lm: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    ref: Path | None = None,
    mapping: str = "none",
    threads: Threads = 0,
) -> None:
    """Look at lists, references and models together, say what is wrong, and propose the command line to use.

    Args:
        lm: A model (run directory, saved model, ARPA file). Repeatable.
        ref: What was said, lines `UTT word word ...`.
        mapping: How recognised words become the models' words, if you have one in mind.
    """
    set_up(threads)
    from trflm.evaluation.formats import format_of

    files = lists.files(ref)
    models = load_models(lm) if lm else {}
    found = examined(files, models, mapping, lists.acoustic_is_cost)
    kind = lists.format if lists.format != "auto" else format_of(lists.nbest).name
    print(f"{lists.nbest}: {kind} lists, {found.utterances:,} looked at, {found.hypotheses:,} hypotheses")
    for name, share in found.oov.items():
        print(f"{name}: does not know {share:.1%} of the words{' !' if share > 0.2 else ''}")
    for advice in found.advice:
        print(f"{'WRONG' if advice.loud else 'note'}: {advice.message}{f'; say {advice.flag}' if advice.flag else ''}")
    print("use: " + command(found, lm))
    if not found.advice:
        print("nothing wrong was found")


def command(found: Examination, lm: tuple[str, ...]) -> str:
    """The command line as it was, and the flags that are missing in it."""
    given = sys.argv[2:] if len(sys.argv) > 1 and sys.argv[1] == "doctor" else []
    flags = dict.fromkeys(advice.flag for advice in found.advice if advice.flag)
    replaced = {flag.split()[0] for flag in flags}
    kept, skip = [], False
    for word in given:
        if skip:
            skip = False
        elif word in replaced:
            skip = True
        else:
            kept.append(word)
    more = [] if lm else ["--lm MODEL"]
    more += [] if "--ref" in kept else ["--ref REF"]
    return " ".join(["trf tune", *kept, *more, *flags, "--out RESCORER"])


def examined(
    files: ListFiles, models: Mapping[str, Model], mapping: str, costs: bool, steps: TextMapping | None = None
) -> Examination:
    """The checks, on these files; standard input cannot be read twice and is not looked at."""
    from trflm.evaluation.doctor import Examination, examine
    from trflm.evaluation.second_pass.scores import FirstPass
    from trflm.evaluation.transcripts import read_transcripts

    if str(files.nbest) == "-":
        return Examination()
    references = None if files.ref is None else read_transcripts(files.ref)
    own = {name: model for name, model in models.items() if not isinstance(model, FirstPass)}
    return examine(files.read(), own, references, mapping, costs, steps)


def warn(
    files: ListFiles, models: Mapping[str, Model], mapping: str, steps: TextMapping, costs: bool, may_map: bool = True
) -> None:
    """The same in other commands: to stderr. Where the mapping is fixed, a flag for it is not proposed."""
    for advice in examined(files, models, mapping, costs, steps).advice:
        proposed = advice.flag and (may_map or not advice.flag.startswith("--mapping"))
        note(f"{files.nbest}: {advice.message}{f'; say {advice.flag}' if proposed else ''}")
