"""Running the real `trf` command in tests."""

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SUBJECTS = [f"{a} {b}" for a in ("the", "a") for b in ("cat", "dog", "bird")]
TINY_TEXT = "".join(f"{subject} {verb}\n{verb} {subject}\n{verb}\n" for subject in SUBJECTS for verb in ("ran", "sat"))
TINY_RECIPE = """
[data]
train = "{text}"
valid = "{text}"
[model]
embedding = 6
projection = 6
bank_width = 3
bank_filters = 6
stack_layers = 2
stack_filters = 6
init = 0.3
[learner]
kind = "nce"
batch = 6
[run]
epochs = 20
checkpoint_seconds = 0
threads = 1
"""
TINY_BLSTM = """
[data]
train = "{text}"
valid = "{text}"
[model]
kind = "blstm"
embedding = 4
units = 4
dropout = 0.2
[learner]
kind = "word-nce"
batch = 6
noise_words = 10
[run]
checkpoint_seconds = 0
threads = 1
"""
TINY_LSTM = """
[data]
train = "{text}"
valid = "{text}"
[model]
kind = "lstm"
embedding = 6
hidden = 6
dropout = 0.1
init = 0.3
[learner]
kind = "sgd"
streams = 4
window = 8
lr = 2.0
[run]
epochs = 20
checkpoint_seconds = 0
keep_best = true
threads = 1
"""
TINY_NGRAM = """
[data]
train = "{text}"
valid = "{text}"
[model]
kind = "ngram"
order = 3
"""


AUGSA = ["learner.kind=augsa", "learner.chains=5", "learner.trials=2", "learner.block=2", "proposal.units=4", "run.snapshots=2"]


# Has imported what the commands need, and forks for each. A fork is a process like any other, to the kernel and to the files;
# it only saves importing torch anew, which takes longer than most of the commands that tests run.
NURSERY = """
import json, os, signal, sys, traceback
import torch, torch._dynamo  # optimisers import the latter, for seconds
import trflm.speed.distinct, trflm.evaluation.second_pass.results, trflm.experiment.store, trflm.experiment.train
from trflm.cli import main
trflm.speed.distinct.distinct([torch.zeros(1, dtype=torch.int32)], 1)
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child == 0:
        signal.alarm(900)  # on a machine that is loaded a second may take a minute
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["environment"])
        for target, path in enumerate(order["files"]):
            os.dup2(os.open(path, os.O_WRONLY if target else os.O_RDONLY), target)
        sys.stdin, sys.argv, status = open(0, closefd=False), ["trf", *order["arguments"]], 1
        try:
            main()
        except SystemExit as end:
            status = end.code
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    _, status, used = os.wait4(child, 0)
    print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss, flush=True)
"""


class Done(subprocess.CompletedProcess[str]):
    """Of a command that has ended, with what it took."""

    processor_seconds: float
    most_bytes: float


@functools.cache
def nursery() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def trf(*arguments: object, stdin: str = "", cwd: Path | None = None) -> Done:
    """`trf` in a process of its own."""
    process = nursery()
    assert process.stdin is not None
    assert process.stdout is not None
    with tempfile.TemporaryDirectory() as directory:
        files = [Path(directory, name) for name in ("stdin", "stdout", "stderr")]
        for file in files:
            file.write_text(stdin if file.name == "stdin" else "")
        order = {
            "arguments": [str(argument) for argument in arguments],
            "files": [str(file) for file in files],
            "cwd": str(cwd or Path.cwd()),
            "environment": dict(os.environ),
        }
        print(json.dumps(order), file=process.stdin, flush=True)
        status, seconds, kilobytes = process.stdout.readline().split()
        done = Done(order["arguments"], int(status), files[1].read_text(), files[2].read_text())
        done.processor_seconds, done.most_bytes = float(seconds), 1e3 * int(kilobytes)
        return done


def fresh_trf(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    """`trf` by a new interpreter, as a user has it."""
    words = [sys.executable, "-m", "trflm", *map(str, arguments)]
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=300, **options)


def tiny_recipe(directory: Path, recipe: str = TINY_RECIPE) -> Path:
    (directory / "text.txt").write_text(TINY_TEXT)
    path = directory / "tiny.toml"
    path.write_text(recipe.format(text=directory / "text.txt"))
    return path


def metrics(run: Path) -> list[dict]:
    """metrics.jsonl without the one thing that may differ between equal runs: the time."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        del row["seconds"]
    return rows
