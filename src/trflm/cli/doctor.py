"""`trf doctor`: what is wrong with lists, references and models together, before it costs anything."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import tyro

from trflm.cli.lists import Lists, load_models, note
from trflm.cli.options import File, Threads, set_up

if TYPE_CHECKING:
    from trflm.evaluation.doctor import Examination
    from trflm.evaluation.nbest import NBestList
    from trflm.evaluation.second_pass.one_list import Model
    from trflm.text.mapping import TextMapping


PIPED = 50  # lists of a pipe that pass before something is said of them


def doctor(
    lists: Annotated[Lists, tyro.conf.arg(name="")],
    *,
    lm: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    ref: File | None = None,
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
    from trflm.evaluation.transcripts import read_transcripts

    files = lists.files(ref)
    models = load_models(lm) if lm else {}
    kind = lists.format if lists.format != "auto" else format_of(lists.nbest).name
    references = None if files.ref is None else read_transcripts(files.ref)
    found = examined(files.read(), models, mapping, lists.acoustic_is_cost, None, references, all_there_are=True)
    print(f"{lists.nbest}: {kind} lists, {found.utterances:,} looked at, {found.hypotheses:,} hypotheses")
    for name, share in found.oov.items():
        print(f"{name}: does not know {share:.1%} of the words{' !' if share > 0.2 else ''}")
    for advice in found.advice:
        print(f"{'WRONG' if advice.loud else 'note'}: {advice.message}{f'; say {advice.flag}' if advice.flag else ''}")
    first = "mend what no flag mends, then use" if any(a.loud and a.flag is None for a in found.advice) else "use"
    print(f"{first}: {command(found, lm)}")
    if not found.advice:
        print("nothing wrong was found")


def command(found: Examination, lm: tuple[str, ...]) -> str:
    """The command line as it was, and the flags that are missing in it."""
    given = sys.argv[2:] if len(sys.argv) > 1 and sys.argv[1] == "doctor" else []
    flags = list(dict.fromkeys(advice.flag for advice in found.advice if advice.flag))
    replaced = {flag.split()[0] for flag in flags}
    kept, skip = [], False
    for word in given:
        if skip:
            skip = False
        elif word in replaced:
            skip = True
        elif word.partition("=")[0] not in replaced:
            kept.append(shlex.quote(word))
    more = [] if lm else ["--lm MODEL"]
    more += [] if found.referenced else ["--ref REF"]
    return " ".join(["trf tune", *kept, *more, *flags, "--out RESCORER"])


def examined(
    lists: Iterable[NBestList],
    models: Mapping[str, Model],
    mapping: str,
    costs: bool,
    steps: TextMapping | None = None,
    references: Mapping[str, str] | None = None,
    all_there_are: bool = False,
) -> Examination:
    """The checks, on these lists."""
    from trflm.evaluation.doctor import examine
    from trflm.evaluation.second_pass.scores import FirstPass

    own = {name: model for name, model in models.items() if not isinstance(model, FirstPass)}
    return examine(lists, own, references, mapping, costs, steps, all_there_are)


def warn(name: str, found: Examination, may_map: bool = True) -> None:
    """The same in other commands: to stderr. Where the mapping is fixed, it takes another tuning to change it."""
    for advice in found.advice:
        how = "say" if may_map or not (advice.flag or "").startswith("--mapping") else "tune again with"
        loud = "WARNING: " if advice.loud else ""
        note(f"{loud}{name}: {advice.message}{f'; {how} {advice.flag}' if advice.flag else ''}")


def watched(
    lists: Iterable[NBestList], tell: Callable[[Iterable[NBestList]], None], enough: int = PIPED
) -> Iterator[NBestList]:
    """The lists of a pipe, which cannot be read twice: none is kept back, and what looks wrong in the first ones is told when
    there have been enough, or no more."""
    lists, some = iter(lists), []
    for nbest in islice(lists, enough):
        some.append(nbest)
        yield nbest
    tell(some)
    yield from lists
