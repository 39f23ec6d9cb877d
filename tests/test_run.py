"""A run that is killed, interrupted or out of disk loses nothing."""

import json
import os
import resource
import signal
import subprocess
import sys
import time

import pytest
import torch
from commands import AUGSA, metrics, tiny_recipe, trf

import trflm
from trflm.checkpoint import load_state
from trflm.models import load_field, read_config

KILLS = 24

# Forks a process that trains from the same warm interpreter, kills it with SIGKILL after a random time, and again. A fork
# is a process like any other to the kernel and to the files; it only saves importing torch anew for every kill. Most kills
# come at a random time after training began (train.log grew), every fourth at a random time before.
KILLER = """
import os, random, signal, sys, time
import torch
from trflm.cli import main
import trflm.run, trflm.config, trflm.progress
torch.optim.Adam([torch.zeros(1, requires_grad=True)])
kills, log = int(sys.argv[1]), sys.argv[2]
sys.argv = ["trf", *sys.argv[3:]]
moments = random.Random(1)
size = lambda: os.path.getsize(log) if os.path.exists(log) else 0
for kill in range(kills):
    before = size()
    child = os.fork()
    if child == 0:
        main()
    while kill % 4 and size() == before and os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(0.001)
    time.sleep(moments.uniform(0, 0.25))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    print("killed" if os.WIFSIGNALED(status) else "ended", flush=True)
"""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    directory = tmp_path_factory.mktemp("whole")
    recipe = tiny_recipe(directory)
    done = trf("train", recipe, "--out", directory / "run", "--quiet", "--set", "run.epochs=40")
    assert (done.returncode, done.stderr) == (0, "")
    return directory


def same_end(run, other) -> None:
    """Parameters, optimiser and metrics, bit for bit."""
    for name in ("training.safetensors", "model.safetensors"):
        (state, note), (expected, expected_note) = load_state(run / name), load_state(other / name)
        assert flat(state) == flat(expected)
        assert note["step"] == expected_note["step"]
    assert metrics(run) == metrics(other)


def flat(state, path=""):
    if isinstance(state, dict):
        return {k: v for key, item in state.items() for k, v in flat(item, f"{path}/{key}").items()}
    if isinstance(state, list):
        return {k: v for i, item in enumerate(state) for k, v in flat(item, f"{path}/{i}").items()}
    return {path: state.numpy().tobytes() if hasattr(state, "numpy") else state}


def test_sigkill_at_random_moments_changes_nothing(uninterrupted, tmp_path):
    recipe, run = uninterrupted / "tiny.toml", tmp_path / "run"
    command = ["train", recipe, "--out", run, "--resume", "--quiet", "--set", "run.epochs=40"]
    killer = [sys.executable, "-c", KILLER, str(KILLS), str(run / "train.log"), *map(str, command)]
    killed = subprocess.run(killer, capture_output=True, text=True, timeout=200, check=True).stdout.split()
    assert killed.count("killed") >= 20, "the run ended too soon to be killed; make it longer"
    done = trf(*command)
    assert (done.returncode, done.stderr) == (0, "")
    same_end(run, uninterrupted / "run")
    resumed = [line for line in (run / "train.log").read_text().splitlines() if "resumed at" in line]
    assert len(resumed) >= 5, "the kills fell before the first checkpoint; let them live longer"


def test_ctrl_c_saves_and_exits_130(uninterrupted, tmp_path):
    recipe, run = uninterrupted / "tiny.toml", tmp_path / "run"
    command = [sys.executable, "-m", "trflm", "train", recipe, "--out", run, "--set", "run.epochs=40"]
    process = subprocess.Popen(
        [*map(str, command), "--set", "run.checkpoint_seconds=1000"], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not (run / "metrics.jsonl").exists() or (run / "metrics.jsonl").stat().st_size < 500:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "SIGINT; everything is saved, go on with --resume" in stderr
    assert "Traceback" not in stderr
    assert load_state(run / "training.safetensors")[1]["step"] == metrics(run)[-1]["step"]
    assert trf("train", recipe, "--out", run, "--resume", "--quiet", "--set", "run.epochs=40").returncode == 0
    same_end(run, uninterrupted / "run")


def test_augsa_resumes_bit_for_bit_with_chains_proposal_and_snapshots(tmp_path):
    recipe, run, whole = tiny_recipe(tmp_path), tmp_path / "run", tmp_path / "whole"
    settings = [word for setting in AUGSA for word in ("--set", setting)]
    command = ["train", recipe, "--quiet", "--set", "run.epochs=4", *settings]
    assert trf(*command, "--out", whole).returncode == 0
    assert trf(*command, "--out", run, "--set", "run.minutes=1e-9").returncode == 0
    assert len(metrics(run)) == 1
    assert trf(*command, "--out", run, "--resume").returncode == 0
    same_end(run, whole)
    names = [path.name for path in sorted((run / "snapshots").iterdir())]
    assert names == ["epoch-000003.safetensors", "epoch-000004.safetensors"]
    averaged = trflm.load(run).log_prob(["the cat ran", "sat"])
    single = [load_field(run / "snapshots" / n, read_config(run / "config.json"), trflm.load(run).vocab, run)[0] for n in names]
    torch.testing.assert_close(averaged, torch.stack([field.log_prob(["the cat ran", "sat"]) for field in single]).mean(0))


def test_disk_full_keeps_the_old_checkpoint(tmp_path):
    """The kernel refuses to let a file grow: the same errors reach us as from a full disk."""
    recipe, run = tiny_recipe(tmp_path), tmp_path / "run"
    assert trf("train", recipe, "--out", run, "--quiet", "--set", "run.epochs=2").returncode == 0
    before = (run / "training.safetensors").read_bytes()
    limit = len(before) // 2
    failed = trf(
        *("train", recipe, "--out", run, "--quiet", "--resume", "--set", "run.epochs=4"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert failed.returncode == 1
    assert "training.safetensors: cannot be written" in failed.stderr
    assert "the training.safetensors written before is intact" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert (run / "training.safetensors").read_bytes() == before
    assert not list(run.glob("*.part"))
    assert trf("train", recipe, "--out", run, "--quiet", "--resume", "--set", "run.epochs=4").returncode == 0
    whole = tmp_path / "whole"
    assert trf("train", recipe, "--out", whole, "--quiet", "--set", "run.epochs=4").returncode == 0
    same_end(run, whole)


def test_an_existing_run_is_refused_and_a_changed_recipe_too(tmp_path):
    recipe, run = tiny_recipe(tmp_path), tmp_path / "run"
    command = ["train", recipe, "--out", run, "--quiet", "--set", "run.epochs=1"]
    assert trf(*command).returncode == 0
    again = trf(*command)
    assert again.returncode == 2
    assert "exists already; go on with it by --resume" in again.stderr
    changed = trf(*command, "--resume", "--set", "learner.batch=5")
    assert changed.returncode == 2
    assert "was started with learner.batch = 6, the recipe now says 5" in changed.stderr
    (tmp_path / "text.txt").write_text("the cat sat\n" * 40)
    other = trf(*command, "--resume")
    assert other.returncode == 2
    assert "is not the text this run was started on" in other.stderr


def test_two_at_once_are_refused(tmp_path):
    recipe, run = tiny_recipe(tmp_path), tmp_path / "run"
    run.mkdir()
    import fcntl

    with open(run / "train.log", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = trf("train", recipe, "--out", run, "--resume")
    assert second.returncode == 2
    assert "another trf train is running there" in second.stderr


def test_minutes_end_a_run_which_can_go_on(tmp_path):
    recipe, run = tiny_recipe(tmp_path), tmp_path / "run"
    command = ["train", recipe, "--out", run, "--quiet", "--set", "run.epochs=3"]
    assert trf(*command, "--set", "run.minutes=1e-9").returncode == 0
    assert len(metrics(run)) == 1
    assert trf(*command, "--resume").returncode == 0
    config = json.loads((run / "config.json").read_text())
    assert metrics(run)[-1]["epoch"] == config["recipe"]["run"]["epochs"] == 3
    assert os.path.exists(run / "model.safetensors")
