"""`trf nbest`: check, convert and judge n-best lists; simulate a recogniser that makes some."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from trflm.cli.bounds import bounded
from trflm.cli.lists import Lists, note
from trflm.cli.options import File, Quiet
from trflm.cli.simulate import simulate
from trflm.errors import InputError
from trflm.ranges import Amount, Count, Weight

if TYPE_CHECKING:
    from trflm.evaluation.nbest import NBestList


def check(lists: Annotated[Lists, tyro.conf.arg(name="")], *, ref: File | None = None, show: Amount = 20) -> None:
    """Read n-best lists strictly and list everything that is wrong; exit with 2 if anything is.

    Args:
        ref: What was said; with it the sign of the acoustic scores is judged by the errors they lead to.
        show: Findings of each kind to print.
    """
    from trflm.evaluation.check import check as run
    from trflm.evaluation.transcripts import read_transcripts

    references = None if ref is None else read_transcripts(ref)
    result = run(str(lists.nbest), lists.files().read, references, show)
    for finding in result.findings:
        print(f"{finding.kind}: {finding}")
    print(
        f"{lists.nbest}: {result.utterances:,} utterances, {result.hypotheses:,} hypotheses (at most {result.deepest:,}), "
        f"{result.words:,} words, scores: {', '.join(result.scores) or 'none'}"
    )
    print("findings: " + (", ".join(f"{count:,} {kind}" for kind, count in sorted(result.counts.items())) or "none"))
    if result.errors:
        raise InputError(f"{lists.nbest}: {result.errors:,} errors, see above")


def convert(
    lists: Annotated[Lists, tyro.conf.arg(name="")],
    to: str,
    out: Path,
    *,
    drop_empty: bool = False,
    constant: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")] = (),
) -> None:
    """Write n-best lists in another format, losing nothing that the format can hold.

    Args:
        to: kaldi and srilm write a directory, espnet, mlm (mlm-scoring), jsonl and parquet a file. Scores are written as
            natural logs, higher is better (srilm: logs to base 10).
        out: The new directory or file; .gz is packed.
        drop_empty: Leave out hypotheses without words, unless the utterance has no other.
        constant: Add a score that is the same everywhere, such as lm=0 for SRILM, which must have one.
    """
    from trflm.evaluation.formats import format_named
    from trflm.files.writer import write_directory

    into = format_named(to)
    read = lists.files().read()
    stream = _with_constants((nbest.without_empty() for nbest in read) if drop_empty else read, _constants(constant))
    first = next(stream, None)
    if first is None:
        raise InputError(f"{lists.nbest}: there is no n-best list in it")
    if first.reference is not None and not into.holds_references:
        note(f"{lists.nbest}: holds references, which {to} lists cannot; they are left out")
    stream = chain([first], stream)
    if into.makes_directory:
        with write_directory(out) as directory:
            into.write(stream, directory)
    else:
        into.write(stream, out)


def oracle(lists: Annotated[Lists, tyro.conf.arg(name="")], ref: File, *, depth: tuple[Count, ...] = ()) -> None:
    """The lowest word error rate that any choice from the first hypotheses could reach, for several depths.

    Args:
        ref: What was said, lines `UTT word word ...`.
        depth: How many hypotheses to choose from; several may be given.
    """
    from trflm.evaluation.oracle import DEPTHS
    from trflm.evaluation.oracle import oracle as run
    from trflm.evaluation.transcripts import read_transcripts

    result = run(lists.files().read(), read_transcripts(ref), sorted(depth) or DEPTHS, str(lists.nbest))
    for at, rate in result.rates.items():
        print(f"oracle of {at}: WER {rate:.2%}  {result.errors[at]} / {result.words} words")


def from_lattice(
    files: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    *,
    out: Path,
    n: Count = 1000,
    lm_scale: Weight = 1.0,
    word_penalty: Weight = 0.0,
    words: Path | None = None,
    quiet: Quiet = False,
) -> None:
    """The best distinct word strings of lattices (HTK SLF, Kaldi text; .gz too), exact, as JSON Lines with all scores.

    Args:
        files: Lattice files; an SLF file is named after its utterance.
        out: The file of lists (.jsonl, .jsonl.gz), or -.
        n: How many strings of each lattice.
        lm_scale: Strings are ordered by acoustic + lm_scale * lm + word_penalty * words.
        word_penalty: Added for every word (natural log).
        words: Kaldi's words.txt, for lattices with numbers in the place of words.
    """
    from trflm.evaluation.formats import write_jsonl
    from trflm.evaluation.lattice import nbest as best_of
    from trflm.evaluation.lattice_files import read_lattices, read_words

    if not files:
        raise InputError("give lattice files")
    known = None if words is None else read_words(words)

    def lists() -> "Iterator[NBestList]":
        import numpy as np

        from trflm.evaluation.nbest import ACOUSTIC, LM, NBestList

        told = False
        for file in files:
            for lattice in read_lattices(file, known):
                if lm_scale != 1 and not told and not lattice.has_lm():
                    told = True
                    note(f'{file}: lattice "{lattice.utterance}" has no language model scores; --lm-scale weighs nothing there')
                found = list(best_of(lattice, n, lm_scale, word_penalty))
                scores = {ACOUSTIC: np.array([s.acoustic for s in found]), LM: np.array([s.lm for s in found])}
                if not quiet:
                    note(f"{lattice.utterance}: {len(lattice.arcs):,} arcs, {len(found):,} strings")
                yield NBestList(lattice.utterance, [" ".join(s.words) for s in found], scores)

    write_jsonl(lists(), out)


def nbest(
    action: Annotated[
        Annotated[None, tyro.conf.subcommand("check", constructor=bounded(check))]
        | Annotated[None, tyro.conf.subcommand("convert", constructor=bounded(convert))]
        | Annotated[None, tyro.conf.subcommand("oracle", constructor=bounded(oracle))]
        | Annotated[None, tyro.conf.subcommand("from-lattice", constructor=bounded(from_lattice))]
        | Annotated[None, tyro.conf.subcommand("simulate", constructor=bounded(simulate))],
        tyro.conf.arg(name=""),
    ],
) -> None:
    """Check, convert, judge or simulate n-best lists."""


def _constants(items: tuple[str, ...]) -> dict[str, float]:
    from trflm.evaluation.formats.fields import SCORE_NAME, parse_score

    constants = {}
    for item in items:
        name, _, text = item.partition("=")
        value = parse_score(text)
        if value is None or not SCORE_NAME.fullmatch(name):
            raise InputError(f"--constant {item}: write NAME=VALUE with a finite number")
        constants[name] = value
    return constants


def _with_constants(lists: "Iterator[NBestList]", constants: dict[str, float]) -> "Iterator[NBestList]":
    from dataclasses import replace

    import numpy as np

    for nbest in lists:
        if known := constants.keys() & nbest.scores.keys():
            raise InputError(
                f'utterance "{nbest.utterance}" has a score {min(known)!r} already; give the constant another name'
            )
        added = {name: np.full(len(nbest), value) for name, value in constants.items()}
        yield replace(nbest, scores={**nbest.scores, **added})
