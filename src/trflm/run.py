"""A training run on disk: recipe in, checkpoints and metrics out, resumable at any moment.

training.safetensors alone is what a run continues from; model.safetensors is what others load. Each is replaced in one
move, and metrics.jsonl is cut back to the length it had at the checkpoint, so a run that was killed and resumed leaves
the same parameters and the same metrics as one that was not.
"""

import dataclasses
import fcntl
import hashlib
import json
import os
import platform
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import trflm
from trflm.checkpoint import load_state, save_state, write_atomically
from trflm.config import Recipe
from trflm.errors import InputError, TrainingError
from trflm.learning.loop import Moment, Plan, generator, training
from trflm.learning.nce import NCE
from trflm.lms.unigram import Unigram
from trflm.models import build_trf, read_config, save_model
from trflm.progress import Progress
from trflm.text import Corpus, Vocab, empirical_pi, read_corpus

MAY_CHANGE = ("epochs", "minutes", "checkpoint_seconds", "threads")  # keys of [run] that a resumed run may set anew


class Interrupted(Exception):
    """A signal asked the run to stop; everything is saved."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


@dataclass(frozen=True)
class Data:
    """The text of a recipe, read."""

    vocab: Vocab
    train: Corpus
    dev: Corpus | None

    @classmethod
    def read(cls, recipe: Recipe) -> "Data":
        data = recipe.data
        if data.vocab:
            vocab = Vocab.from_list(data.vocab)
        else:
            vocab = Vocab.from_text([data.train], size=data.vocab_size or None, min_count=data.min_count)
        train = read_corpus(data.train, vocab, data.max_length or None)
        return cls(vocab, train, read_corpus(data.valid, vocab) if data.valid else None)

    def fingerprint(self) -> dict[str, Any]:
        """What the training text was, to see whether a resumed run gets the same."""
        ids, lengths = self.train.sentences.ids_N.numpy(), self.train.sentences.lengths_B.numpy()
        digest = hashlib.sha256(ids.tobytes() + lengths.tobytes() + self.vocab.to_text().encode()).hexdigest()
        return {"sentences": len(lengths), "words": len(ids), "vocabulary": len(self.vocab), "sha256": digest}


def train(recipe: Recipe, out: Path, resume: bool, progress: Progress) -> None:
    """Train from a recipe into directory `out`: from the start, or on from its last checkpoint."""
    if recipe.run.threads:
        torch.set_num_threads(recipe.run.threads)
    data = Data.read(recipe)
    with locked(out, resume):
        run = RunDirectory(out)
        run.prepare(recipe, data)
        pi = empirical_pi(data.train.sentences.lengths_B)
        trf = build_trf(recipe.model, data.vocab, pi, generator(recipe.run.seed, "init")).to(recipe.run.device)
        learner = NCE(trf, Unigram.estimate(data.vocab, data.train.sentences, pi), recipe.learner)
        steps_done, seconds_before = 0, 0.0
        if run.checkpoint.exists():
            state, note = load_state(run.checkpoint)
            learner.load_state_dict(state)
            steps_done, seconds_before = note["step"], note["seconds"]
            run.cut_metrics(note["metrics_bytes"])
            save_model(out, trf, steps_done)  # a kill may have fallen between the two files
        else:
            run.cut_metrics(0)

        def save(step: int, seconds: float) -> None:
            size = run.sync_metrics()
            state = learner.state_dict()
            save_state(run.checkpoint, state, content="training", step=step, seconds=seconds, metrics_bytes=size)
            save_model(out, trf, step)

        with run, progress, stop_signals() as stop:
            run.log(f"{'resumed at' if steps_done else 'started at'} step {steps_done}", progress)
            for corpus in (data.train, data.dev):
                if corpus is not None:
                    run.log(corpus.summary(), progress)
            plan = Plan(recipe.learner.batch, recipe.run.epochs, recipe.run.seed, recipe.run.device)
            dev = data.dev.sentences if data.dev else None
            started = saved = time.monotonic()
            saved_step = step = steps_done
            for moment in training(learner, data.train.sentences, dev, plan, steps_done):
                step, now = moment.step, time.monotonic()
                seconds = seconds_before + now - started
                run.record(moment, seconds)
                progress.update(moment)
                out_of_time = recipe.run.minutes > 0 and seconds >= 60 * recipe.run.minutes
                if stop or out_of_time or moment.dev is not None or now - saved >= recipe.run.checkpoint_seconds:
                    save(step, seconds)
                    saved, saved_step = time.monotonic(), step
                if stop:
                    run.log(f"stopped by a signal after step {step}; everything is saved, go on with --resume", progress)
                    raise Interrupted(stop[0])
                if out_of_time:
                    run.log(f"stopped after {recipe.run.minutes:g} minutes as the recipe says", progress)
                    break
            if step > saved_step or not run.checkpoint.exists():
                save(step, seconds_before + time.monotonic() - started)
            run.log(f"finished at step {step}; the model is in {out}", progress)


class RunDirectory:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoint = path / "training.safetensors"
        self.metrics_path = path / "metrics.jsonl"

    def prepare(self, recipe: Recipe, data: Data) -> None:
        """Write config.json and vocab.txt, or see that they are those of this recipe and text."""
        config_path = self.path / "config.json"
        if self.checkpoint.exists():
            check_same(read_config(config_path), recipe, data, self.path)
        config = {"recipe": dataclasses.asdict(recipe), "text": data.fingerprint(), **provenance()}
        write_atomically(self.path / "vocab.txt", data.vocab.to_text().encode())
        write_atomically(config_path, (json.dumps(config, indent=1) + "\n").encode())

    def cut_metrics(self, size: int) -> None:
        """Forget what was recorded after the checkpoint."""
        with open(self.metrics_path, "ab") as file:
            if file.tell() < size:
                raise TrainingError(f"{self.metrics_path}: shorter than at the last checkpoint; it was changed from outside")
            file.truncate(size)

    def __enter__(self) -> "RunDirectory":
        self.metrics = open(self.metrics_path, "a", encoding="utf-8")
        self.log_file = open(self.path / "train.log", "a", encoding="utf-8")
        return self

    def __exit__(self, *error: object) -> None:
        self.metrics.close()
        self.log_file.close()

    def record(self, moment: Moment, seconds: float) -> None:
        row = {"step": moment.step, "epoch": round(moment.epoch, 6), **moment.metrics, **(moment.dev or {})}
        with writing(self.metrics_path):
            print(json.dumps({**row, "seconds": round(seconds, 3)}), file=self.metrics, flush=True)

    def sync_metrics(self) -> int:
        """Make metrics.jsonl durable; its length in bytes."""
        with writing(self.metrics_path):
            os.fsync(self.metrics.fileno())
            return os.fstat(self.metrics.fileno()).st_size

    def log(self, message: str, progress: Progress) -> None:
        progress.say(message)
        with writing(self.path / "train.log"):
            print(time.strftime("%Y-%m-%d %H:%M:%S"), message, file=self.log_file, flush=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the file when the disk is full."""
    try:
        yield
    except OSError as error:
        raise TrainingError(
            f"{path}: cannot be written: {error.strerror or error}; the last checkpoint is intact. "
            "Free some space and go on with --resume"
        ) from error


@contextmanager
def locked(out: Path, resume: bool) -> Iterator[None]:
    """The run directory, ours alone until we end, however we end."""
    if not resume and out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out}: exists already; go on with it by --resume, or give another --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = open(out / "train.log", "a")
    except OSError as error:
        raise InputError(f"{out}: cannot be made or written: {error.strerror or error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{out}: another trf train is running there; wait for it, or give another --out") from error
        yield


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """A list that a first SIGINT or SIGTERM puts its number in; a second one interrupts at once."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check_same(config: dict[str, Any], recipe: Recipe, data: Data, path: Path) -> None:
    """A resumed run has the recipe and the text it started with."""
    old, new = json.loads(json.dumps(config.get("recipe", {}))), json.loads(json.dumps(dataclasses.asdict(recipe)))
    for section in new:
        for key in new[section]:
            was, now = old.get(section, {}).get(key), new[section][key]
            if was != now and not (section == "run" and key in MAY_CHANGE):
                raise InputError(
                    f"{path}: was started with {section}.{key} = {was!r}, the recipe now says {now!r}; "
                    "resume with the old value, or start a new run"
                )
    if config.get("text") != data.fingerprint():
        raise InputError(f"{path}: {recipe.data.train} is not the text this run was started on; start a new run")


def provenance() -> dict[str, Any]:
    """Versions, commit and machine: what a result depends on besides recipe and seed."""
    return {
        "trflm": trflm.__version__,
        "commit": commit(),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads",
    }


def commit() -> str | None:
    """The commit of the source tree we run from, marked if it has changes; None when installed from a package."""
    source = Path(__file__).parent
    if not (source.parents[1] / ".git").exists():
        return None
    try:
        words = ["git", "-C", str(source), "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
