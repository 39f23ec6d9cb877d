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
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from trflm.errors import InputError, TrainingError
from trflm.experiment.board import board, check_board
from trflm.experiment.data import Data
from trflm.experiment.directory import SNAPSHOTS, RunDirectory, locked, writing
from trflm.experiment.progress import Progress, shown
from trflm.experiment.recipe import FieldRecipe, LSTMRecipe, RunConfig
from trflm.experiment.store import belonging, read_config, save_fixed_parts, save_model
from trflm.files.tensors import load_state, save_state
from trflm.learning.loop import Learner, Moment, training
from trflm.learning.schedules import stopped_rising
from trflm.learning.shards import Shards
from trflm.speed.devices import check_device
from trflm.speed.workers import started_together, workers

SHARDS = 8  # of a run that torchrun starts, unless the recipe says how many


class Interrupted(Exception):
    """A signal asked the run to stop; everything is saved."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


StepsRecipe = FieldRecipe | LSTMRecipe


def train(recipe: StepsRecipe, out: Path, resume: bool, progress: Progress) -> None:
    """Train from a recipe into directory `out`: from the start, or on from its last checkpoint. Of several processes that
    torchrun has started, the first does all that is done once and takes the decisions; the others only compute."""
    check_device(recipe.run.device, "run.device")
    check_board(recipe.run.tensorboard)
    if recipe.run.threads:
        torch.set_num_threads(recipe.run.threads)
    elif started_together() and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    with workers(recipe.run.device) as team:
        recipe = replace(recipe, run=replace(recipe.run, shards=team.from_first(lambda: shards_of(recipe.run, out))))
        shards = Shards(max(recipe.run.shards, 1), team, recipe.run.exact)
        data = team.first_then_others(recipe.data.read)
        signal_number = lead(recipe, data, shards, out, resume, progress) if team.first else assist(recipe, data, shards)
    if signal_number:
        raise Interrupted(signal_number)


def shards_of(run: RunConfig, out: Path) -> int:
    """As the recipe says; if it does not, as the run was started."""
    config, checkpoint = out / "config.json", out / "training.safetensors"
    if run.shards or (not started_together() and not checkpoint.exists()):
        return run.shards
    return int(read_config(config).get("recipe", {}).get("run", {}).get("shards", 0)) if checkpoint.exists() else SHARDS


def assist(recipe: StepsRecipe, data: Data, shards: Shards) -> int:
    """Compute some of the shards of every step until the first process stops; the signal that stopped it, or 0."""
    learner, team = recipe.build(data, fresh=False, shards=shards), shards.workers
    start: tuple[dict[str, Any], int] | None = team.from_first(lambda: None)
    if start is None:
        return 0
    state, step = start
    learner.load_state_dict(state)
    with stop_signals(insist=False) as stop:
        for _ in training(learner, None, epochs=recipe.run.epochs, seed=recipe.run.seed, steps_done=step):
            stopped_by, over = team.greatest([sum(stop[:1]), 0])
            if stopped_by or over:
                return stopped_by
    return 0


def lead(recipe: StepsRecipe, data: Data, shards: Shards, out: Path, resume: bool, progress: Progress) -> int:
    """The run itself; the signal that stopped it, or 0."""
    team = shards.workers
    with locked(out, resume), RunDirectory(out, recipe, data) as run, progress:
        for corpus in (data.train, data.dev):
            if corpus is not None:
                run.log(corpus.summary(), progress)
        if shards.count > 1:
            run.log(f"{shards.count} shards a step, by {team.size} process{'es' if team.size > 1 else ''}", progress)
        learner = recipe.build(data, fresh=not run.checkpoint.exists(), shards=shards)
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
        team.from_first(lambda: None if over else (learner.state_dict(), done.step))
        if over:
            run.log(f"nothing to do at step {done.step}: {over}", progress)
            return 0
        with stop_signals(insist=not started_together()) as stop, board(out, recipe.run.tensorboard, done.step) as show:
            stopped_by = 0
            started = saved = epoch_started = time.monotonic()
            for moment in training(learner, dev, epochs=recipe.run.epochs, seed=recipe.run.seed, steps_done=done.step):
                now = time.monotonic()
                done = Done(moment.step, done.seconds + now - started, done.dev_history)
                started = now
                run.record(moment, done.seconds)
                show(moment)
                progress.update(moment)
                if moment.dev is not None:
                    done.dev_history.append(moment.dev["criterion"])
                if moment.epoch.is_integer():
                    rate = len(data.train.sentences) / (now - epoch_started)
                    metrics = shown({**moment.metrics, **(moment.dev or {})})
                    run.note(f"epoch {moment.epoch:.0f}, step {moment.step}: {rate:.3g} sentences a second, {metrics}")
                    epoch_started = now
                over = is_over(recipe.run, done)
                stopped_by, _ = team.greatest([sum(stop[:1]), int(over is not None)])
                reason = signalled(stopped_by) or over
                if reason or moment.epoch.is_integer() or now - saved >= recipe.run.checkpoint_seconds:
                    checkpoints.save(learner, done, moment)
                    saved = time.monotonic()
                if reason:
                    run.log(f"stopped after step {done.step}: {reason}", progress)
                    break
        if not stopped_by:
            run.log(f"finished at step {done.step}; the model is in {out}", progress)
        return stopped_by


@dataclass(frozen=True)
class Done:
    """How far a run has come."""

    step: int
    seconds: float
    dev_history: list[float]  # the dev criterion of each epoch


def signalled(number: int) -> str | None:
    return f"{signal.Signals(number).name}; everything is saved, go on with --resume" if number else None


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
def stop_signals(insist: bool) -> Iterator[list[int]]:
    """A list that a first SIGINT or SIGTERM puts its number in; a second one interrupts at once, if it may `insist`. Under
    torchrun it may not: the same Ctrl-C can arrive twice, and torchrun ends by itself who does not stop in half a minute."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if received and insist:
            raise KeyboardInterrupt
        received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
