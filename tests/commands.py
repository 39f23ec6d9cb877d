"""Running the real `trf` command in tests."""

import json
import subprocess
import sys
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


def trf(*arguments: object, stdin: str = "", **options) -> subprocess.CompletedProcess[str]:
    """`trf` in a process of its own, as a user has it."""
    words = [sys.executable, "-m", "trflm", *map(str, arguments)]
    return subprocess.run(words, check=False, input=stdin, capture_output=True, text=True, timeout=300, **options)


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
