"""`trf rescore`: choose the best hypotheses with the help of language models."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import tyro

from trflm.cli.doctor import examined, warn, watched
from trflm.cli.lists import Lists, load_models, note
from trflm.cli.options import BF16, Device, File, Quiet, Threads, set_up
from trflm.cli.wer import change_lines, comparison_line, rate_line
from trflm.errors import InputError
from trflm.files.reader import share_read
from trflm.files.remote import exists, is_address, put_files
from trflm.ranges import Amount, NotNegative, Seed, Weight

if TYPE_CHECKING:
    from trflm.deploy.rescorer import Rescorer
    from trflm.evaluation.nbest import NBestList
    from trflm.evaluation.second_pass.results import SecondPassResult

AHEAD = 100  # lists that are read here where Ray reads them all: what share of the file they are tells how many there may be


def rescore(
    lists: Annotated[Lists, tyro.conf.arg(name="")],
    out: File,
    *,
    rescorer: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    lm: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    scale: NotNegative | None = None,
    weights: Path | None = None,
    ref: File | None = None,
    word_penalty: Weight = 0.0,
    oov_penalty: Weight | None = None,
    mapping: str = "none",
    scores: bool = False,
    changes: Amount = 0,
    shard: Annotated[str, tyro.conf.arg(metavar="I/N")] = "1/1",
    resume: bool = False,
    ray: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="[ADDRESS]")] = None,
    workers: Amount = 0,
    check: bool = False,
    force: bool = False,
    seed: Seed = 0,
    bf16: BF16 = False,
    device: Device = "cpu",
    threads: Threads = 0,
    quiet: Quiet = False,
) -> None:
    """Rescore n-best lists with language models and write the best hypothesis of each utterance.

    score = acoustic + scale * sum_k weight_k * (LM_k - OOV penalty * OOV words) + word penalty * words

    Each list is read, scored by itself, written and forgotten. A job that was killed goes on with --resume, and has the same
    results to the byte. `trf rescore merge SHARD ... --out DIR` joins what jobs with --shard wrote.

    Args:
        out: A directory: best.txt, result.json, and scores.jsonl.gz with --scores. Or - for lines `UTT words` on stdout.
            The directory may be an address (s3://...): files are put there when the job is done.
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
        ray: Divide the work among workers of Ray: of the cluster at ADDRESS, or of this machine. Needs --rescorer.
        workers: With --ray: how many, each with --threads CPUs (1 if not given); as many as there are CPUs if not given.
        check: Read all lists before the first is scored. Otherwise the first 500 are looked at, and a fault further on is
            found when it is reached; when it is mended, the job goes on with --resume.
        force: Report on the very set the weights were tuned on; every output is marked.
        seed: Of the bootstrap interval.
    """
    set_up(threads)
    from trflm.deploy import on_ray
    from trflm.deploy.directory import named
    from trflm.deploy.finish import finish, is_finished, remove_journal
    from trflm.deploy.journal import Header, writing
    from trflm.deploy.stream import Shard, pass_over, rescore_into, rescore_to_stdout
    from trflm.evaluation.second_pass.results import TUNED_HERE
    from trflm.evaluation.transcripts import match_utterances, read_transcripts

    # Everything is looked at before anything is scored.
    to_stdout, part = out == "-", Shard.parse(shard)
    if ray is not None:
        check_ray(ray, workers, rescorer, lists, out, device)
    elif workers:
        raise InputError("--workers N is for --ray; --threads N is for one process")
    if to_stdout and (ref is not None or resume):
        raise InputError("--out - writes no files: leave out --ref and --resume, or give a directory")
    if check and lists.nbest == "-":
        raise InputError("--check reads the lists twice, which stdin does not allow; give a file, or leave it out")
    if is_address(out):
        check_elsewhere(out, resume)
    elif not to_stdout:
        place = Path(out)
        if place.exists() and not resume and any(place.iterdir() if place.is_dir() else [place]):
            raise InputError(f"{out}: exists already; give a new name, or go on with --resume")
        if is_finished(place):
            remove_journal(place)  # it may have been stopped just before
            note(f"{out}: finished before; nothing to do")
            return
    files = lists.files(ref)
    if changes and ref is None and (str(lists.nbest) == "-" or next(files.read()).reference is None):
        raise InputError("--changes needs to know what was said: give --ref, or lists that carry it")
    made = the_rescorer(rescorer, lm, scale, weights, word_penalty, oov_penalty, mapping, bf16, device)
    same = made.tuned.same_content(files.contents) if made.tuned is not None else []
    if same and not force:
        raise InputError(f"{same[0]}: the weights were tuned on this very file; report on another set, or say --force")
    if same:
        note(f"{same[0]}: {TUNED_HERE}")
    references = None if ref is None else read_transcripts(ref)

    def look(some: Iterable[NBestList]) -> None:
        found = examined(some, made.models, made.mapping, lists.acoustic_is_cost, made.scorer.mapping, references)
        warn(lists.nbest, found, may_map=rescorer is None and weights is None)

    piped, count = lists.nbest == "-", None
    if not piped:
        if not quiet:
            look(files.read())
        if references is not None:
            names = [nbest.utterance for nbest in files.read()]
            match_utterances(names, references, str(lists.nbest), str(ref))
            count = len(names)
        elif check or Path(lists.nbest).is_dir():
            count = sum(1 for _ in files.read())

    stream = part.take(watched(files.read(), look) if piped and not quiet else files.read())
    coming = Coming(stream, files.nbest, None if count is None else len(range(part.number - 1, count, part.of)))
    if to_stdout:
        rescore_to_stdout(made, coming, scores, tell_rate(coming, quiet))
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
    with placed(out) as place, writing(place, header, resume) as journal:
        if journal.done:
            note(f"{out}: {journal.done:,} utterances were done before")
        tell = tell_rate(coming, quiet, journal.done)
        try:
            if ray is None:
                rescore_into(journal, made, coming, references, scores, tell)
            else:
                pass_over(journal, iter(coming), references)
                for _ in islice(coming, 0 if quiet else AHEAD):  # Ray reads all; these tell how many there may be
                    pass
                assert made.path is not None
                job = on_ray.Job(files.absolute(), made.path, made.sha256, scores, part, threads or 1)
                with on_ray.connected(ray[0] if ray else None, workers, job.threads) as size:
                    for line in on_ray.lines(job, journal.done, size):
                        journal.write_line(line)
                        tell(journal.done)
        except InputError:
            if journal.done and not is_address(out):
                note(f"{out}: {journal.done:,} utterances are done and kept; mend what is wrong and go on with --resume")
            raise
        found = finish(place, seed)
    print("\n".join(result_lines(found, changes)) or f"{out}: best hypotheses of {found.utterances} utterances")


def check_ray(ray: tuple[str, ...], workers: int, rescorer: Path | None, lists: Lists, out: str, device: str) -> None:
    """What --ray cannot do."""
    if len(ray) > 1:
        raise InputError(f"--ray {' '.join(ray)}: give one address, or none")
    if rescorer is None:
        raise InputError("--ray: workers load a directory; make it with `trf tune ... --out DIR` and give it as --rescorer DIR")
    if "-" in (lists.nbest, out):
        raise InputError("--ray: workers see no pipes; give --nbest a file and --out a directory")
    if device != "cpu":
        raise InputError(f"--ray --device {device}: workers compute on CPUs; use map_batches with num_gpus (docs/scale.md)")
    if workers < 0:
        raise InputError(f"--workers {workers}: must not be negative")


def check_elsewhere(out: str, resume: bool) -> None:
    if resume:
        raise InputError(f"{out}: a job goes on from its journal, which needs a disk; give a directory here as --out")
    if exists(out):
        raise InputError(f"{out}: exists already; give a new name")


@contextmanager
def placed(out: str) -> Iterator[Path]:
    """The directory to write to. What is for an address is made here and put there when all is done, result.json last."""
    if not is_address(out):
        yield Path(out)
        return
    with TemporaryDirectory(prefix="trf-rescore-") as scratch:
        place = Path(scratch) / "results"
        yield place
        put_files(sorted(place.iterdir(), key=lambda file: file.name.endswith("result.json")), out)


def the_rescorer(
    directory: Path | None,
    lm: tuple[str, ...],
    scale: float | None,
    weights: Path | None,
    word_penalty: float,
    oov_penalty: float | None,
    mapping: str,
    bf16: bool,
    device: str,
) -> Rescorer:
    """From a directory, or from models and their weights."""
    from trflm.deploy.rescorer import Rescorer, content_of
    from trflm.evaluation.second_pass.combine import default_weights
    from trflm.evaluation.weights import for_models, load_weights

    given = word_penalty or oov_penalty is not None or mapping != "none"
    if directory is not None:
        if lm or scale is not None or weights is not None or given:
            raise InputError(f"--rescorer {directory}: holds models, weights, penalties and mapping; leave out the others")
        return Rescorer.load(directory, bf16, device)
    if (scale is None) == (weights is None):
        raise InputError("give --rescorer DIR, or --lm MODEL with either --scale X or --weights FILE")
    if weights is None:
        assert scale is not None
        models = load_models(lm, bf16, device)
        return Rescorer.of(models, default_weights(models, [scale / len(lm)] * len(lm), word_penalty, oov_penalty), mapping)
    if given:
        raise InputError(
            f"--weights {weights}: holds penalties and mapping; leave out --word-penalty, --oov-penalty, --mapping"
        )
    tuned, models = load_weights(weights), load_models(lm, bf16, device)
    made = Rescorer.of(models, for_models(tuned, dict.fromkeys(lm) | content_of(models), str(weights)), tuned.mapping)
    made.tuned = tuned
    return made


class Coming:
    """Lists as they are read, and how many there will be: as they were counted, or as the share of the file that has been read
    tells. Of a pipe nobody knows."""

    def __init__(self, lists: Iterable[NBestList], path: Path | str, counted: int | None = None) -> None:
        self.lists, self.path, self.counted = lists, path, counted
        self.read = 0

    def __iter__(self) -> Iterator[NBestList]:
        for nbest in self.lists:
            self.read += 1
            yield nbest
        self.counted = self.read

    def total(self) -> int | None:
        share = share_read(self.path)
        return round(self.read / share) if self.counted is None and share else self.counted


def tell_rate(coming: Coming, quiet: bool, before: int = 0) -> Callable[[int], None]:
    """Every few seconds how many utterances are done, how fast, and how long the rest will take."""
    started = shown = time.monotonic()

    def tell(done: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if quiet or (now - shown < 5 and done != coming.counted):
            return
        shown = now
        rate, total = (done - before) / max(now - started, 1e-3), coming.total()
        about = "" if coming.counted is not None else "about "
        left = "" if total is None else f" of {about}{total:,}, {duration(max(total - done, 0) / rate)} left"
        note(f"{done:,} utterances{left}, {rate:,.0f} a second")

    return tell


def duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    return f"{seconds:.0f} s" if seconds < 100 else f"{minutes:.0f} min" if minutes < 100 else f"{hours:.1f} h"


def merge(
    shards: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SHARD")],
    *,
    out: Path,
    changes: Amount = 0,
    seed: Seed = 0,
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
