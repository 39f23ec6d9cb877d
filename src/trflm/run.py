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

import torch

from trflm.build import Data, Learner, build_learner
from trflm.checkpoint import load_state, save_state
from trflm.config import FieldRecipe, LSTMRecipe, RunConfig
from trflm.errors import TrainingError
from trflm.learning.loop import Moment, training
from trflm.learning.schedules import stopped_rising
from trflm.models import save_model
from trflm.progress import Progress
from trflm.run_directory import RunDirectory, locked, writing


class Interrupted(Exception):
    """A signal asked the run to stop; everything is saved."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


def train(recipe: FieldRecipe | LSTMRecipe, out: Path, resume: bool, progress: Progress) -> None:
    """Train from a recipe into directory `out`: from the start, or on from its last checkpoint."""
    if recipe.run.threads:
        torch.set_num_threads(recipe.run.threads)
    data = Data.read(recipe)
    with locked(out, resume), RunDirectory(out, recipe, data) as run, progress:
        for corpus in (data.train, data.dev):
            if corpus is not None:
                run.log(corpus.summary(), progress)
        learner = build_learner(recipe, data, fresh=not run.checkpoint.exists())
        checkpoints = Checkpoints(run, recipe.run)
        done = checkpoints.restore(learner)
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
                if reason or moment.epoch.is_integer() or now - saved >= recipe.run.checkpoint_seconds:
                    checkpoints.save(learner, done, moment)
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


class Checkpoints:
    """What a run of steps saves and goes on from."""

    def __init__(self, run: RunDirectory, config: RunConfig) -> None:
        self.run, self.config = run, config

    def restore(self, learner: Learner) -> Done:
        """Bring the learner and metrics.jsonl to the last checkpoint, if there is one."""
        if not self.run.checkpoint.exists():
            self.run.metrics.truncate(0)
            return Done(0, 0.0, [])
        state, note = load_state(self.run.checkpoint)
        learner.load_state_dict(state)
        if self.run.metrics.tell() < note["metrics_bytes"]:
            raise TrainingError(f"{self.run.metrics.name}: shorter than at the last checkpoint; it was changed from outside")
        self.run.metrics.truncate(note["metrics_bytes"])
        done = Done(note["step"], note["seconds"], note["dev_history"])
        self.save_model(learner, done)  # a kill may have fallen between the two files
        return done

    def save(self, learner: Learner, done: Done, moment: Moment) -> None:
        """A checkpoint, the model, and at the end of an epoch a snapshot."""
        with writing(Path(self.run.metrics.name)):
            os.fsync(self.run.metrics.fileno())
            size = os.fstat(self.run.metrics.fileno()).st_size
        note = {"step": done.step, "seconds": done.seconds, "dev_history": done.dev_history, "metrics_bytes": size}
        keep = self.config.snapshots
        if keep and moment.epoch.is_integer():
            snapshots = self.run.path / "snapshots"
            with writing(snapshots):
                snapshots.mkdir(exist_ok=True)
            save_model(snapshots / f"epoch-{int(moment.epoch):06d}.safetensors", learner, done.step)
            for old in sorted(snapshots.glob("epoch-*.safetensors"))[:-keep]:
                old.unlink()
        save_state(self.run.checkpoint, learner.state_dict(), content="training", **note)
        self.save_model(learner, done)

    def save_model(self, learner: Learner, done: Done) -> None:
        """The model of now; with run.keep_best, once there is a dev result, only at the end of an epoch that was the best."""
        if self.config.keep_best and done.dev_history:
            ends_epoch = done.step % learner.steps_per_epoch == 0
            if not (ends_epoch and done.dev_history[-1] == max(done.dev_history)):
                return
        save_model(self.run.model, learner, done.step)


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
