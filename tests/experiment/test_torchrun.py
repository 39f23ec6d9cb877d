"""Several processes train one model: as torchrun starts them, when one of them dies, and what cannot be."""

import os
import signal
import subprocess
import sys

import pytest
from commands import metrics, tiny_recipe, trf
from worlds import Ended, error_of, free_port, in_world

import trflm
from trflm.cli import main
from trflm.experiment import train as training_run
from trflm.files.tensors import load_state

EPOCHS, STEPS = 2, 8  # of 36 sentences, 8 a step
SET = ["--set", f"run.epochs={EPOCHS}", "--set", "learner.batch=8", "--quiet"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A run of one process with 8 shards a step; it is this process, so that those which are forked from it find all loaded."""
    directory = tmp_path_factory.mktemp("alone")
    overrides = [*SET[1:-1:2], "run.shards=8"]
    trflm.train(tiny_recipe(directory), directory / "run", overrides=overrides, quiet=True)
    assert metrics(directory / "run")[-1]["step"] == STEPS
    return directory / "run"


def check_same(run, alone) -> None:
    assert (run / "model.safetensors").read_bytes() == (alone / "model.safetensors").read_bytes()
    assert metrics(run) == metrics(alone)


def command(recipe, run, *more: str) -> list[str]:
    return ["train", str(recipe), "--out", str(run), *SET, *more]


def in_processes(size: int, words: list[str], directory, before=lambda rank: None) -> None:
    """`trf WORDS` in so many processes that torchrun's variables say belong together."""

    def run(rank: int) -> None:
        before(rank)
        sys.argv = ["trf", *words]
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise

    in_world(size, run, directory)


def test_torchrun_with_two_processes_makes_the_bytes_of_one(alone, tmp_path):
    """The real torchrun. It gives no number of shards: 8 is what it gets."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port())]
    words = [*torchrun, "-m", "trflm", *command(tiny_recipe(tmp_path), tmp_path / "run")]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    check_same(tmp_path / "run", alone)
    assert "8 shards a step, by 2 processes" in (tmp_path / "run" / "train.log").read_text()


def test_a_process_that_dies_stops_the_run_with_one_message_and_resume_goes_on_with_any_number(alone, tmp_path):
    """The second of two kills itself in its fourth step; then three go on, are interrupted, and one ends the run."""
    words = command(tiny_recipe(tmp_path), tmp_path / "run")

    def die(rank: int) -> None:
        if rank == 1:
            at_step(4, lambda: os.kill(os.getpid(), signal.SIGKILL))

    with pytest.raises(Ended) as ended:
        in_processes(2, words, tmp_path, die)
    status, (message, _) = ended.value.args
    assert status == [1, -signal.SIGKILL]
    assert message.startswith("trf: another process of this training has ended")
    assert message.count("\n") == 1
    assert message.endswith("go on with --resume\n")
    assert load_state(tmp_path / "run" / "training.safetensors")[1]["step"] == 3

    def interrupt(rank: int) -> None:  # as Ctrl-C does, which reaches every process
        at_step(2, lambda: os.kill(os.getpid(), signal.SIGINT))

    with pytest.raises(Ended) as ended:
        in_processes(3, [*words, "--resume"], tmp_path, interrupt)
    assert ended.value.args[0] == [130, 130, 130]
    assert load_state(tmp_path / "run" / "training.safetensors")[1]["step"] == 5
    done = trf(*words, "--resume")
    assert (done.returncode, done.stderr) == (0, "")
    check_same(tmp_path / "run", alone)


def at_step(number: int, act) -> None:
    """Do it when the step of this number (of this process, from 1) begins."""
    training = training_run.training

    def watched(learner, *arguments, **options):
        step, count = learner.step, 0

        def counted(*of_step):
            nonlocal count
            count += 1
            if count == number:
                act()
            return step(*of_step)

        learner.step = counted
        return training(learner, *arguments, **options)

    training_run.training = watched


def test_a_run_is_stopped_in_all_processes_when_it_is_over_and_nothing_is_left_to_do(alone, tmp_path):
    words = command(tiny_recipe(tmp_path), tmp_path / "run", "--set", "run.minutes=0.0001")
    in_processes(2, words, tmp_path)
    assert len(metrics(tmp_path / "run")) == 1
    in_processes(2, [*words, "--resume"], tmp_path)
    assert len(metrics(tmp_path / "run")) == 1
    assert "nothing to do at step 1: 0.0001 minutes are over" in (tmp_path / "run" / "train.log").read_text()


def test_more_processes_than_shards_are_refused_by_one_message(alone, tmp_path):
    words = command(tiny_recipe(tmp_path), tmp_path / "run", "--set", "run.shards=2")
    with pytest.raises(Ended) as ended:
        in_processes(3, words, tmp_path)
    status, messages = ended.value.args
    assert status == [2, 2, 2]
    assert messages[0].startswith("trf: 3 processes, but run.shards = 2: a process needs a shard at least; start at most 2")
    assert "".join(messages).count("\n") == 1


def test_other_shards_than_those_of_the_checkpoint_are_refused(alone, tmp_path):
    recipe = tiny_recipe(tmp_path)
    words = command(recipe, tmp_path / "run", "--set", "run.minutes=0.0001")
    done = trf(*words, "--set", "run.shards=4")
    assert done.returncode == 0
    for size, more in ((1, ["--set", "run.shards=3"]), (2, ["--set", "run.shards=8"])):
        with pytest.raises(Ended) as ended:
            in_processes(size, [*words, "--resume", *more], tmp_path)
        assert ended.value.args[0][0] == 2
        assert "was started with run.shards = 4, the recipe now says" in error_of(tmp_path, 0)
        assert error_of(tmp_path, 0).count("\n") == 1
    in_processes(2, [*words, "--resume"], tmp_path)  # who says nothing gets those of the checkpoint


def test_a_fault_that_only_the_first_process_finds_is_one_message(alone, tmp_path):
    """The run exists: the first process alone looks there; the others end with it."""
    recipe = tiny_recipe(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model.safetensors").write_text("")
    with pytest.raises(Ended) as ended:
        in_processes(2, command(recipe, tmp_path / "run"), tmp_path)
    status, messages = ended.value.args
    assert status[0] == 2
    assert messages[0] == f"trf: {tmp_path / 'run'}: exists already; go on with it by --resume, or give another --out\n"
    assert status[1] != 0
    assert messages[1] == ""
