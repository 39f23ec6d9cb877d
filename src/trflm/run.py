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
from trflm.build import Data, build_learner
from trflm.checkpoint import load_state, save_state, write_atomically
from trflm.config import Recipe, RunConfig
from trflm.errors import InputError, TrainingError
from trflm.learning.augsa import AugSA
from trflm.learning.loop import Moment, training
from trflm.learning.nce import NCE
from trflm.learning.schedules import stopped_rising
from trflm.models import read_config, save_model
from trflm.progress import Progress

MAY_CHANGE = (
    "epochs",
    "minutes",
    "checkpoint_seconds",
    "snapshots",
    "stop_window",
    "stop_gain",
    "threads",
)  # keys of [run] that a resumed run may set anew


class Interrupted(Exception):
    """A signal asked the run to stop; everything is saved."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


def train(recipe: Recipe, out: Path, resume: bool, progress: Progress) -> None:
    """Train from a recipe into directory `out`: from the start, or on from its last checkpoint."""
    if recipe.run.threads:
        torch.set_num_threads(recipe.run.threads)
    data = Data.read(recipe)
    with locked(out, resume), RunDirectory(out, recipe, data) as run, progress:
        for corpus in (data.train, data.dev):
            if corpus is not None:
                run.log(corpus.summary(), progress)
        learner = build_learner(recipe, data, fresh=not run.checkpoint.exists())
        done = run.restore(learner)
        run.log(f"{'resumed at' if done.step else 'started at'} step {done.step}", progress)
        dev = data.dev.sentences if data.dev else None
        with stop_signals() as stop:
            started = saved = time.monotonic()
            for moment in training(learner, dev, epochs=recipe.run.epochs, seed=recipe.run.seed, steps_done=done.step):
                now = time.monotonic()
                done = Done(moment.step, done.seconds + now - started, done.dev_history)
                started = now
                run.record(moment, done.seconds)
                progress.update(moment)
                reason = why_end(recipe.run, moment, done, stop)
                if reason or moment.dev is not None or now - saved >= recipe.run.checkpoint_seconds:
                    run.save(learner, done, moment)
                    saved = time.monotonic()
                if reason:
                    run.log(f"stopped after step {done.step}: {reason}", progress)
                    break
        if stop:
            raise Interrupted(stop[0])
        run.log(f"finished at step {done.step}; the model is in {out}", progress)


@dataclass(frozen=True)
class Done:
    """How far a run has come."""

    step: int
    seconds: float
    dev_history: list[float]  # the dev criterion of each epoch


def why_end(run: RunConfig, moment: Moment, done: Done, stop: list[int]) -> str | None:
    """The reason to end after this step, if there is one."""
    if moment.dev is not None:
        done.dev_history.append(moment.dev["criterion"])
    if stop:
        return f"{signal.Signals(stop[0]).name}; everything is saved, go on with --resume"
    if run.minutes > 0 and done.seconds >= 60 * run.minutes:
        return f"{run.minutes:g} minutes are over"
    if moment.dev is not None and stopped_rising(done.dev_history, run.stop_window, run.stop_gain):
        return f"the dev criterion has not risen over {run.stop_window} epochs"
    return None


class RunDirectory:
    """The files of one run."""

    def __init__(self, path: Path, recipe: Recipe, data: Data) -> None:
        self.path, self.recipe = path, recipe
        self.checkpoint = path / "training.safetensors"
        config_path = path / "config.json"
        if self.checkpoint.exists():
            check_same(read_config(config_path), recipe, data, path)
        config = {"recipe": dataclasses.asdict(recipe), "text": fingerprint(data), **provenance()}
        write_atomically(path / "vocab.txt", data.vocab.to_text().encode())
        write_atomically(config_path, (json.dumps(config, indent=1) + "\n").encode())

    def __enter__(self) -> "RunDirectory":
        self.metrics = open(self.path / "metrics.jsonl", "a", encoding="utf-8")
        self.log_file = open(self.path / "train.log", "a", encoding="utf-8")
        return self

    def __exit__(self, *error: object) -> None:
        self.metrics.close()
        self.log_file.close()

    def restore(self, learner: AugSA | NCE) -> Done:
        """Bring the learner and metrics.jsonl to the last checkpoint, if there is one."""
        if not self.checkpoint.exists():
            self.metrics.truncate(0)
            return Done(0, 0.0, [])
        state, note = load_state(self.checkpoint)
        learner.load_state_dict(state)
        if self.metrics.tell() < note["metrics_bytes"]:
            raise TrainingError(f"{self.metrics.name}: shorter than at the last checkpoint; it was changed from outside")
        self.metrics.truncate(note["metrics_bytes"])
        save_model(self.path / "model.safetensors", learner, note["step"])  # a kill may have fallen between the two files
        return Done(note["step"], note["seconds"], note["dev_history"])

    def save(self, learner: AugSA | NCE, done: Done, moment: Moment) -> None:
        """A checkpoint, the model, and at the end of an epoch a snapshot."""
        with writing(Path(self.metrics.name)):
            os.fsync(self.metrics.fileno())
            size = os.fstat(self.metrics.fileno()).st_size
        note = {"step": done.step, "seconds": done.seconds, "dev_history": done.dev_history, "metrics_bytes": size}
        keep = self.recipe.run.snapshots
        if keep and moment.epoch.is_integer():
            snapshots = self.path / "snapshots"
            snapshots.mkdir(exist_ok=True)
            save_model(snapshots / f"epoch-{int(moment.epoch):06d}.safetensors", learner, done.step)
            for old in sorted(snapshots.glob("epoch-*.safetensors"))[:-keep]:
                old.unlink()
        save_state(self.checkpoint, learner.state_dict(), content="training", **note)
        save_model(self.path / "model.safetensors", learner, done.step)

    def record(self, moment: Moment, seconds: float) -> None:
        row = {"step": moment.step, "epoch": round(moment.epoch, 6), **moment.metrics, **(moment.dev or {})}
        with writing(Path(self.metrics.name)):
            print(json.dumps({**row, "seconds": round(seconds, 3)}), file=self.metrics, flush=True)

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
    if config.get("text") != fingerprint(data):
        raise InputError(f"{path}: {recipe.data.train} is not the text this run was started on; start a new run")


def fingerprint(data: Data) -> dict[str, Any]:
    """What the training text was, to see whether a resumed run gets the same."""
    ids, lengths = data.train.sentences.ids_N.numpy(), data.train.sentences.lengths_B.numpy()
    digest = hashlib.sha256(ids.tobytes() + lengths.tobytes() + data.vocab.to_text().encode()).hexdigest()
    return {"sentences": len(lengths), "words": len(ids), "vocabulary": len(data.vocab), "sha256": digest}


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
