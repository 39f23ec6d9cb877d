"""A training run on disk: recipe in, checkpoints and metrics out, resumable at any moment.

training.safetensors alone is what a run continues from; model.safetensors is what others load. Each is replaced in one
move, and metrics.jsonl is cut back to the length it had at the checkpoint, so a run that was killed and resumed leaves
the same parameters and the same metrics as one that was not.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from trflm.errors import InputError, TrainingError
from trflm.experiment.directory import SNAPSHOTS, RunDirectory, locked, writing
from trflm.experiment.progress import Progress, shown
from trflm.experiment.recipe import FieldRecipe, LSTMRecipe, RunConfig
from trflm.experiment.store import belonging, save_fixed_parts, save_model
from trflm.files.tensors import load_state, save_state
from trflm.learning.loop import Learner, Moment, training
from trflm.learning.schedules import stopped_rising


class Interrupted(Exception):
    """A signal asked the run to stop; everything is saved."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


def train(recipe: FieldRecipe | LSTMRecipe, out: Path, resume: bool, progress: Progress) -> None:
    """Train from a recipe into directory `out`: from the start, or on from its last checkpoint."""
    check_device(recipe.run.device)
    if recipe.run.threads:
        torch.set_num_threads(recipe.run.threads)
    data = recipe.data.read()
    with locked(out, resume), RunDirectory(out, recipe, data) as run, progress:
        for corpus in (data.train, data.dev):
            if corpus is not None:
                run.log(corpus.summary(), progress)
        learner = recipe.build(data, fresh=not run.checkpoint.exists())
        for note in learner.notes:
            run.log(note, progress)
        save_fixed_parts(out, learner.model)
        dev = data.dev.sentences if data.dev else None
        if dev is not None and (left_out := len(dev) - len(learner.usable(dev))):
            run.log(f"{left_out} dev sentences of lengths that training has not seen are left out of dev figures", progress)
        checkpoints = Checkpoints(run, recipe.run)
        done = checkpoints.restore(learner)
        run.log(f"{'resumed at' if done.step else 'started at'} step {done.step}", progress)
        over = is_over(recipe.run, done)
        if over:
            run.log(f"nothing to do at step {done.step}: {over}", progress)
            return
        with stop_signals() as stop:
            started = saved = epoch_started = time.monotonic()
            for moment in training(learner, dev, epochs=recipe.run.epochs, seed=recipe.run.seed, steps_done=done.step):
                now = time.monotonic()
                done = Done(moment.step, done.seconds + now - started, done.dev_history)
                started = now
                run.record(moment, done.seconds)
                progress.update(moment)
                if moment.dev is not None:
                    done.dev_history.append(moment.dev["criterion"])
                if moment.epoch.is_integer():
                    rate = len(data.train.sentences) / (now - epoch_started)
                    metrics = shown({**moment.metrics, **(moment.dev or {})})
                    run.note(f"epoch {moment.epoch:.0f}, step {moment.step}: {rate:.3g} sentences a second, {metrics}")
                    epoch_started = now
                reason = signalled(stop) or is_over(recipe.run, done)
                if reason or moment.epoch.is_integer() or now - saved >= recipe.run.checkpoint_seconds:
                    checkpoints.save(learner, done, moment)
                    saved = time.monotonic()
                if reason:
                    run.log(f"stopped after step {done.step}: {reason}", progress)
                    break
        if stop:
            raise Interrupted(stop[0])
        run.log(f"finished at step {done.step}; the model is in {out}", progress)


def check_device(device: str) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"run.device = {device!r}: cannot be used: {reason}; give cpu, or a device torch has") from error


@dataclass(frozen=True)
class Done:
    """How far a run has come."""

    step: int
    seconds: float
    dev_history: list[float]  # the dev criterion of each epoch


def signalled(stop: list[int]) -> str | None:
    return f"{signal.Signals(stop[0]).name}; everything is saved, go on with --resume" if stop else None


def is_over(run: RunConfig, done: Done) -> str | None:
    """The reason why a run that has come so far is at its end, if it is."""
    if run.minutes > 0 and done.seconds >= 60 * run.minutes:
        return f"{run.minutes:g} minutes are over"
    if stopped_rising(done.dev_history, run.stop_window, run.stop_gain):
        return f"the dev criterion has not risen over {run.stop_window} epochs"
    return None


class Checkpoints:
    """What a run of steps saves and goes on from."""

    def __init__(self, run: RunDirectory, config: RunConfig) -> None:
        self.run, self.config = run, config
        self.snapshots = run.path / SNAPSHOTS

    def restore(self, learner: Learner) -> Done:
        """Bring the learner and metrics.jsonl to the last checkpoint, if there is one."""
        if not self.run.checkpoint.exists():
            self.run.metrics.truncate(0)
            return Done(0, 0.0, [])
        state, note = load_state(self.run.checkpoint)
        if note.get("content") != "training":
            raise InputError(f"{self.run.checkpoint}: holds {note.get('content')!r}, not the state of a training run")
        with belonging(self.run.checkpoint):
            learner.load_state_dict(state)
        if self.run.metrics.tell() < note["metrics_bytes"]:
            raise TrainingError(f"{self.run.metrics.name}: shorter than at the last checkpoint; it was changed from outside")
        self.run.metrics.truncate(note["metrics_bytes"])
        if "model" in note:  # else as good as the same, but for rounding
            learner.model.recall(note["model"])
        done = Done(note["step"], note["seconds"], note["dev_history"])
        self.save_model(learner, done)  # a kill may have fallen between the files
        self.prune(learner, done)
        return done

    def save(self, learner: Learner, done: Done, moment: Moment) -> None:
        """A checkpoint, the model, and at the end of an epoch a snapshot."""
        with writing(Path(self.run.metrics.name)):
            os.fsync(self.run.metrics.fileno())
            size = os.fstat(self.run.metrics.fileno()).st_size
        note = {"step": done.step, "seconds": done.seconds, "dev_history": done.dev_history, "metrics_bytes": size}
        note["model"] = learner.model.note()
        state = learner.state_dict()
        check_state(state, done.step)
        if self.config.snapshots and moment.epoch.is_integer():
            with writing(self.snapshots):
                self.snapshots.mkdir(exist_ok=True)
            save_model(self.snapshots / f"epoch-{int(moment.epoch):06d}.safetensors", learner.model, step=done.step)
        save_state(self.run.checkpoint, state, content="training", **note)
        self.save_model(learner, done)
        self.prune(learner, done)

    def prune(self, learner: Learner, done: Done) -> None:
        """Remove the snapshots that the model does not name."""
        kept = self.kept(learner, done)
        for old in sorted(self.snapshots.glob("epoch-*.safetensors")):
            if old not in kept:
                old.unlink()

    def kept(self, learner: Learner, done: Done) -> list[Path]:
        """The snapshots of the last epochs, up to now."""
        last = done.step // learner.steps_per_epoch
        epochs = range(max(last - self.config.snapshots, 0) + 1, last + 1)
        paths = [self.snapshots / f"epoch-{epoch:06d}.safetensors" for epoch in epochs]
        return [path for path in paths if path.exists()]

    def save_model(self, learner: Learner, done: Done) -> None:
        """The model of now; with run.keep_best, once there is a dev result, only at the end of an epoch that was the best."""
        if self.config.keep_best and done.dev_history:
            ends_epoch = done.step % learner.steps_per_epoch == 0
            if not (ends_epoch and done.dev_history[-1] == max(done.dev_history)):
                return
        snapshots = [path.name for path in self.kept(learner, done)]
        save_model(self.run.model, learner.model, step=done.step, snapshots=snapshots)


def check_state(state: Any, step: int, path: str = "") -> None:
    """No number that is not one goes into a checkpoint, so that the last one is always good."""
    match state:
        case dict():
            for key, item in state.items():
                check_state(item, step, f"{path}/{key}")
        case torch.Tensor() if not bool(torch.isfinite(state).all()):
            raise TrainingError(
                f"training diverged by step {step}: {path.lstrip('/')} is not finite. It is not saved. Lower the learning rate "
                "(--set learner.lr=...) and start a new run"
            )


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
