"""The files that every run leaves: config.json, vocab.txt, metrics.jsonl, train.log. One process at a time writes them."""

import dataclasses
import fcntl
import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import trflm
from trflm.errors import InputError, TrainingError
from trflm.experiment.board import BOARD
from trflm.experiment.data import Data
from trflm.experiment.paths import relocate
from trflm.experiment.progress import Progress
from trflm.experiment.recipe import Recipe, parse_recipe
from trflm.experiment.store import read_config
from trflm.files.tensors import write_atomically
from trflm.files.writer import check_regular, open_to_append
from trflm.learning.loop import Moment
from trflm.text import Batch

# What a run has written that has nothing to lose yet: it may be started anew.
BEFORE_A_CHECKPOINT = {"config.json", "vocab.txt", "metrics.jsonl", "train.log", "reference.safetensors"}
FILES = (*sorted(BEFORE_A_CHECKPOINT), "training.safetensors", "model.safetensors")
SNAPSHOTS = "snapshots"  # the directory of epoch-*.safetensors
# Keys of [run] that a resumed run may set anew.
MAY_CHANGE = {"epochs", "minutes", "checkpoint_seconds", "snapshots", "stop_window", "stop_gain", "threads", "tensorboard"}


class RunDirectory:
    """The files of one run."""

    def __init__(self, path: Path, recipe: Recipe, data: Data) -> None:
        self.path = path
        self.checkpoint = path / "training.safetensors"
        self.model = path / "model.safetensors"
        config_path = path / "config.json"
        if self.checkpoint.exists() or self.model.exists():
            check_same(read_config(config_path), recipe, data, path)
        known = {"text": fingerprint(data), "unknown_types": data.train.unknown_types}
        config = {"recipe": dataclasses.asdict(recipe), "directory": os.getcwd(), **known, **provenance()}
        write_atomically(path / "vocab.txt", data.vocab.to_text().encode())
        write_atomically(config_path, (json.dumps(config, indent=1) + "\n").encode())

    def __enter__(self) -> "RunDirectory":
        self.metrics = open_to_append(self.path / "metrics.jsonl")
        self.log_file = open_to_append(self.path / "train.log")
        return self

    def __exit__(self, *error: object) -> None:
        self.metrics.close()
        self.log_file.close()

    def record(self, moment: Moment, seconds: float) -> None:
        row = {"step": moment.step, "epoch": round(moment.epoch, 6), **moment.metrics, **(moment.dev or {})}
        with writing(Path(self.metrics.name)):
            print(json.dumps({**row, "seconds": round(seconds, 3)}), file=self.metrics, flush=True)

    def log(self, message: str, progress: Progress) -> None:
        """To the person and to train.log."""
        progress.say(message)
        self.note(message)

    def note(self, message: str) -> None:
        """To train.log alone."""
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
    begun = {path.name for path in out.iterdir()} - BEFORE_A_CHECKPOINT - {BOARD} if out.is_dir() else set()
    if begun and not resume:
        raise InputError(f"{out}: exists already; go on with it by --resume, or give another --out")
    check_files(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = open_to_append(out / "train.log")
    except OSError as error:
        raise InputError(f"{out}: cannot be made or written: {error.strerror or error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{out}: another trf train is running there; wait for it, or give another --out") from error
        yield


def check_files(out: Path) -> None:
    """The files of a run that somebody else may have made: none leads out of its directory."""
    for name in FILES:
        check_regular(out / name)
        check_regular(out / f"{name}.part")
    check_regular(out / SNAPSHOTS, directory=True)
    check_regular(out / BOARD, directory=True)
    for file in (out / SNAPSHOTS).glob("epoch-*"):
        check_regular(file)


def check_same(config: dict[str, Any], recipe: Recipe, data: Data, path: Path) -> None:
    """A resumed run has the recipe and the text it started with. A key that is new since then had its default."""
    before = parse_recipe(config.get("recipe", {}), str(path / "config.json"))
    old, new = dataclasses.asdict(before), dataclasses.asdict(recipe)
    # A path may be written in another way now, if it leads to the same place.
    old_paths, new_paths = (
        dataclasses.asdict(relocate(one, lambda name, start=start: os.path.realpath(os.path.join(start, name))))
        for one, start in ((before, str(config.get("directory", ""))), (recipe, ""))
    )
    for section in new:
        for key in new[section]:
            was, now = old.get(section, {}).get(key), new[section][key]
            same = was == now or old_paths.get(section, {}).get(key) == new_paths[section][key]
            if not same and not (section == "run" and key in MAY_CHANGE):
                raise InputError(
                    f"{path}: was started with {section}.{key} = {was!r}, the recipe now says {now!r}; "
                    "resume with the old value, or start a new run"
                )
    if config.get("text") != fingerprint(data):
        raise InputError(f"{path}: {recipe.data.train} is not the text this run was started on; start a new run")


def fingerprint(data: Data) -> dict[str, Any]:
    """What the training text was, to see whether a resumed run gets the same."""
    text = data.train.sentences
    if isinstance(text, Batch):
        content = text.ids_N.numpy().tobytes() + text.lengths_B.numpy().tobytes()
    else:
        content = text.digest.encode()
    digest = hashlib.sha256(content + data.vocab.to_text().encode()).hexdigest()
    return {"sentences": len(text), "words": text.n_words, "vocabulary": len(data.vocab), "sha256": digest}


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
    source = Path(__file__).parents[1]
    if not (source.parents[1] / ".git").exists():
        return None
    try:
        words = ["git", "-C", str(source), "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
