"""`trf rescore`: choose the best hypotheses with the help of language models."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from trflm.cli.doctor import warn
from trflm.cli.lists import Lists, load_models, note
from trflm.cli.options import BF16, Quiet, Threads, set_up
from trflm.cli.wer import change_lines, comparison_line, rate_line
from trflm.errors import InputError

if TYPE_CHECKING:
    from trflm.deploy.rescorer import Rescorer
    from trflm.evaluation.second_pass.results import SecondPassResult


def rescore(
    lists: Annotated[Lists, tyro.conf.arg(name="")],
    out: Path,
    *,
    rescorer: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    lm: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    scale: float | None = None,
    weights: Path | None = None,
    ref: Path | None = None,
    word_penalty: float = 0.0,
    oov_penalty: float | None = None,
    mapping: str = "none",
    scores: bool = False,
    changes: int = 0,
    shard: Annotated[str, tyro.conf.arg(metavar="I/N")] = "1/1",
    resume: bool = False,
    unchecked: bool = False,
    force: bool = False,
    seed: int = 0,
    bf16: BF16 = False,
    threads: Threads = 0,
    quiet: Quiet = False,
) -> None:
    """Rescore n-best lists with language models and write the best hypothesis of each utterance.

    score = acoustic + scale * sum_k weight_k * (LM_k - OOV penalty * OOV words) + word penalty * words

    Each list is read, scored by itself, written and forgotten. A job that was killed goes on with --resume, and has the same
    results to the byte. `trf rescore merge SHARD ... --out DIR` joins what jobs with --shard wrote.

    Args:
        out: A directory: best.txt, result.json, and scores.jsonl.gz with --scores. Or - for lines `UTT words` on stdout.
        rescorer: What `trf tune --out DIR` wrote: models, weights, penalties and text mapping. Nothing else is needed.
        lm: Without --rescorer: a model (run directory, ARPA file), or score:NAME for a score that the lists carry. Repeatable.
        scale: With --lm: weight of the language models, shared equally by several. Or give --weights.
        weights: With --lm: what `trf tune --out FILE.json` wrote. Models are known by their content.
        ref: What was said; with it, or if the lists carry it, word error rates are reported.
        word_penalty: With --scale: added for every word (natural log).
        oov_penalty: With --scale: taken off for every word unknown to a model; each model's own default if not given.
        mapping: With --scale: how recognised words become the models' words: none, ptb, lower,clitics,table=FILE, ...
        scores: Also write every hypothesis with all its scores.
        changes: With references, show the words that decided in this many of the most and least improved utterances.
        shard: Take every N-th list, beginning with the I-th.
        resume: Go on with the job in --out; start if there is none.
        unchecked: Do not read all lists once before the first is scored; a fault is then found when it is reached.
        force: Report on the very set the weights were tuned on; every output is marked.
        seed: Of the bootstrap interval.
    """
    set_up(threads)
    from trflm.deploy.directory import named
    from trflm.deploy.finish import finish, is_finished
    from trflm.deploy.journal import Header, writing
    from trflm.deploy.stream import Shard, rescore_into, rescore_to_stdout
    from trflm.evaluation.second_pass.results import TUNED_HERE
    from trflm.evaluation.transcripts import match_utterances, read_transcripts

    # Everything is looked at before anything is scored.
    to_stdout, part = str(out) == "-", Shard.parse(shard)
    if to_stdout and (ref is not None or resume):
        raise InputError("--out - writes no files: leave out --ref and --resume, or give a directory")
    if not to_stdout and out.exists() and not resume and any(out.iterdir() if out.is_dir() else [out]):
        raise InputError(f"{out}: exists already; give a new name, or go on with --resume")
    if not to_stdout and is_finished(out):
        note(f"{out}: finished before; nothing to do")
        return
    files = lists.files(ref)
    if changes and ref is None and (str(lists.nbest) == "-" or next(files.read()).reference is None):
        raise InputError("--changes needs to know what was said: give --ref, or lists that carry it")
    made = the_rescorer(rescorer, lm, scale, weights, word_penalty, oov_penalty, mapping, bf16)
    same = made.tuned.same_content(files.contents) if made.tuned is not None else []
    if same and not force:
        raise InputError(f"{same[0]}: the weights were tuned on this very file; report on another set, or say --force")
    if same:
        note(f"{same[0]}: {TUNED_HERE}")
    if not quiet:
        free = rescorer is None and weights is None
        warn(files, made.models, made.mapping, made.scorer.mapping, lists.acoustic_is_cost, may_map=free)
    references = None if ref is None else read_transcripts(ref)
    total = None
    if str(lists.nbest) != "-" and not (unchecked and ref is None):
        names = [nbest.utterance for nbest in files.read()] if ref is not None else None
        if names is not None and references is not None:
            match_utterances(names, references, str(lists.nbest), str(ref))
        count = sum(1 for _ in files.read()) if names is None else len(names)
        total = len(range(part.number - 1, count, part.of))

    stream = part.take(files.read())
    if to_stdout:
        rescore_to_stdout(made, stream, scores, tell_rate(total, quiet))
        return
    header = Header(
        rescorer=made.sha256,
        weights=made.weights,
        mapping=named(made.mapping),
        files=files.contents,
        shard=part.number,
        shards=part.of,
        scores=scores,
        tuned_here=bool(same),
        models=tuple(made.models),
    )
    with writing(out, header, resume) as journal:
        if journal.done:
            note(f"{out}: {journal.done:,} utterances were done before")
        rescore_into(journal, made, stream, references, scores, tell_rate(total, quiet, journal.done))
        found = finish(out, seed)
    print("\n".join(result_lines(found, changes)) or f"{out}: best hypotheses of {found.utterances} utterances")


def the_rescorer(
    directory: Path | None,
    lm: tuple[str, ...],
    scale: float | None,
    weights: Path | None,
    word_penalty: float,
    oov_penalty: float | None,
    mapping: str,
    bf16: bool,
) -> Rescorer:
    """From a directory, or from models and their weights."""
    from trflm.deploy.rescorer import Rescorer, content_of
    from trflm.evaluation.second_pass.combine import default_weights
    from trflm.evaluation.weights import for_models, load_weights

    given = word_penalty or oov_penalty is not None or mapping != "none"
    if directory is not None:
        if lm or scale is not None or weights is not None or given:
            raise InputError(f"--rescorer {directory}: holds models, weights, penalties and mapping; leave out the others")
        return Rescorer.load(directory, bf16)
    if (scale is None) == (weights is None):
        raise InputError("give --rescorer DIR, or --lm MODEL with either --scale X or --weights FILE")
    if weights is None:
        assert scale is not None
        models = load_models(lm, bf16)
        return Rescorer.of(models, default_weights(models, [scale / len(lm)] * len(lm), word_penalty, oov_penalty), mapping)
    if given:
        raise InputError(
            f"--weights {weights}: holds penalties and mapping; leave out --word-penalty, --oov-penalty, --mapping"
        )
    tuned, models = load_weights(weights), load_models(lm, bf16)
    made = Rescorer.of(models, for_models(tuned, dict.fromkeys(lm) | content_of(models), str(weights)), tuned.mapping)
    made.tuned = tuned
    return made


def tell_rate(total: int | None, quiet: bool, before: int = 0) -> Callable[[int], None]:
    """Every few seconds how many utterances are done, how fast, and how long the rest will take."""
    started = shown = time.monotonic()

    def tell(done: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if quiet or (now - shown < 5 and done != total):
            return
        shown = now
        rate = (done - before) / max(now - started, 1e-3)
        left = "" if total is None else f" of {total:,}, {duration((total - done) / rate)} left"
        note(f"{done:,} utterances{left}, {rate:,.0f} a second")

    return tell


def duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    return f"{seconds:.0f} s" if seconds < 100 else f"{minutes:.0f} min" if minutes < 100 else f"{hours:.1f} h"


def merge(
    shards: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SHARD")],
    *,
    out: Path,
    changes: int = 0,
    seed: int = 0,
) -> None:
    """Join what jobs with --shard 1/N to N/N wrote: the same bytes as the job that was not divided.

    Args:
        shards: The directories of all shards, in any order.
        out: A new directory.
        changes: With references, show the words that decided in this many of the most and least improved utterances.
        seed: Of the bootstrap interval.
    """
    from trflm.deploy.finish import merge as join

    if not shards:
        raise InputError("give the directories of the shards")
    found = join(shards, out, seed)
    print("\n".join(result_lines(found, changes)) or f"{out}: best hypotheses of {found.utterances} utterances")


def result_lines(found: SecondPassResult, changes: int) -> list[str]:
    """Word errors before and after, and the utterances that changed most; each line carries the warning, if there is one."""
    if found.wer is None or found.comparison is None or found.changed is None:
        return []
    lines = [
        *(rate_line(name, figures) for name, figures in found.wer.items()),
        f"rescored against first in the lists: {comparison_line(found.comparison)}",
        *change_lines(found.changed, changes),
    ]
    return [f"{found.warning}: {line}" for line in lines] if found.warning else lines
