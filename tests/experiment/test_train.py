"""A run that is killed, interrupted or out of disk loses nothing."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys

import pytest
import torch
from commands import AUGSA, TINY_BLSTM, TINY_LSTM, TINY_NGRAM, TINY_RECIPE, TINY_TEXT, fresh_trf, metrics, tiny_recipe, trf

import trflm
from trflm.experiment.progress import Quiet
from trflm.experiment.recipe import FieldRecipe, LSTMRecipe, read_recipe
from trflm.experiment.train import Checkpoints, train
from trflm.field.snapshots import FieldModel
from trflm.field.trf import TRF
from trflm.files.tensors import load_state, save_state

EPOCHS = 8  # of the runs that are killed or interrupted

# Forks processes that train from the same warm interpreter and kill themselves with SIGKILL, one after another. A fork is a
# process like any other to the kernel and to the files; it only saves importing torch anew for every kill. The work decides
# when a kill falls, not the clock: so many calls of functions (Python's and C's, system calls among them) after so many files
# were replaced, and at its second checkpoint at the latest.
KILLER = """
import os, random, signal, sys
import torch
from trflm.cli import main
import trflm.experiment.train, trflm.experiment.recipe, trflm.experiment.progress
torch.optim.Adam([torch.zeros(1, requires_grad=True)])
replace, moments, kills = os.replace, random.Random(1), int(sys.argv[1])
sys.argv = ["trf", *sys.argv[2:]]
for _ in range(kills):
    files, calls, checkpoints = moments.randrange(6), moments.randrange(3000), 2
    child = os.fork()
    if child == 0:
        def count_calls(frame, event, argument):
            global calls
            calls -= 1
            if calls < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        def count_files(source, target):
            global files, checkpoints
            replace(source, target)
            files -= 1
            checkpoints -= os.path.basename(target) == "training.safetensors"
            if checkpoints == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            if files < 0:
                sys.setprofile(count_calls)
        os.replace = count_files
        main()
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""

# Sends itself SIGINT when the second checkpoint is written.
INTERRUPTED = """
import os, signal
from trflm.cli import main
replace, checkpoints = os.replace, 2
def interrupt(source, target):
    global checkpoints
    replace(source, target)
    if os.path.basename(target) == "training.safetensors":
        checkpoints -= 1
        if checkpoints == 0:
            os.kill(os.getpid(), signal.SIGINT)
os.replace = interrupt
main()
"""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    directory = tmp_path_factory.mktemp("whole")
    recipe = tiny_recipe(directory)
    done = trf("train", recipe, "--out", directory / "run", "--quiet", "--set", f"run.epochs={EPOCHS}")
    assert (done.returncode, done.stderr) == (0, "")
    return directory


@pytest.fixture(scope="module")
def uninterrupted_lstm(tmp_path_factory):
    directory = tmp_path_factory.mktemp("lstm")
    recipe = tiny_recipe(directory, TINY_LSTM)
    done = trf("train", recipe, "--out", directory / "run", "--quiet", "--set", f"run.epochs={EPOCHS}")
    assert (done.returncode, done.stderr) == (0, "")
    return directory


def same_end(run, other) -> None:
    """Parameters, optimiser and metrics, bit for bit; of the model and its snapshots every byte."""
    (state, note), (expected, expected_note) = (load_state(at / "training.safetensors") for at in (run, other))
    assert flat(state) == flat(expected)
    assert note["step"] == expected_note["step"]
    assert model_files(run) == model_files(other)
    assert metrics(run) == metrics(other)


def model_files(run) -> dict[str, bytes]:
    files = [run / "model.safetensors", *sorted((run / "snapshots").glob("*"))]
    return {file.name: file.read_bytes() for file in files}


def flat(state, path=""):
    if isinstance(state, dict):
        return {k: v for key, item in state.items() for k, v in flat(item, f"{path}/{key}").items()}
    if isinstance(state, list):
        return {k: v for i, item in enumerate(state) for k, v in flat(item, f"{path}/{i}").items()}
    return {path: state.numpy().tobytes() if hasattr(state, "numpy") else state}


def check_killed_and_resumed(recipe, run, whole) -> None:
    """Kills change nothing. A process lives for two checkpoints at most: these kills all fall before the end."""
    command = ["train", recipe, "--out", run, "--resume", "--quiet", "--set", f"run.epochs={EPOCHS}"]
    kills = (len(metrics(whole)) - 1) // 2
    killer = [sys.executable, "-c", KILLER, str(kills), *map(str, command)]
    ends = subprocess.run(killer, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    assert ends == [str(-signal.SIGKILL)] * kills
    done = trf(*command)
    assert (done.returncode, done.stderr) == (0, "")
    same_end(run, whole)
    resumed = sum("resumed at" in line for line in (run / "train.log").read_text().splitlines())
    assert resumed >= kills // 3, "the kills fell before the first checkpoint; let them live longer"


def test_sigkill_at_random_moments_changes_nothing(uninterrupted, tmp_path):
    check_killed_and_resumed(uninterrupted / "tiny.toml", tmp_path / "run", uninterrupted / "run")


def test_sigkill_changes_nothing_for_an_lstm(uninterrupted_lstm, tmp_path):
    check_killed_and_resumed(uninterrupted_lstm / "tiny.toml", tmp_path / "run", uninterrupted_lstm / "run")


def test_ctrl_c_saves_and_exits_130(uninterrupted, tmp_path):
    recipe, run = uninterrupted / "tiny.toml", tmp_path / "run"
    command = ["train", recipe, "--out", run, "--set", f"run.epochs={EPOCHS}", "--set", "run.checkpoint_seconds=1e9"]
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *map(str, command)], check=False, stderr=subprocess.PIPE, text=True
    )
    assert ended.returncode == 130
    assert "SIGINT; everything is saved, go on with --resume" in ended.stderr
    assert "Traceback" not in ended.stderr
    step = load_state(run / "training.safetensors")[1]["step"]
    assert step == metrics(run)[-1]["step"] == 13  # the step after the second epoch of six
    assert trf("train", recipe, "--out", run, "--resume", "--quiet", "--set", f"run.epochs={EPOCHS}").returncode == 0
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
    loaded = trflm.load(run)
    assert isinstance(loaded, FieldModel)
    assert len(loaded.fields) == 2
    text = ["the cat ran", "sat"]
    torch.testing.assert_close(loaded.log_prob(text), (loaded.fields[0].log_prob(text) + loaded.fields[1].log_prob(text)) / 2)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (
            TINY_RECIPE,
            ["learner.kind=dnce", "learner.replacements=2", "proposal.units=4", "model.dropout=0.2", "reference.order=1"],
        ),
        (TINY_RECIPE, ["noise.kind=ngram", "noise.order=2", "reference.order=2", "learner.weight_decay=0.01"]),
        (TINY_BLSTM, []),
    ],
    ids=["dnce", "nce", "word-nce"],
)
def test_the_fast_road_resumes_bit_for_bit(tmp_path, text, settings):
    """From the middle of an epoch, and of a pool of noise."""
    recipe, run, whole = tiny_recipe(tmp_path, text), tmp_path / "run", tmp_path / "whole"
    command = ["train", recipe, "--quiet", "--set", "run.epochs=4", *(w for setting in settings for w in ("--set", setting))]
    assert trf(*command, "--out", whole).returncode == 0
    assert trf(*command, "--out", run, "--set", "run.minutes=1e-9").returncode == 0
    assert len(metrics(run)) == 1
    assert trf(*command, "--out", run, "--resume").returncode == 0
    same_end(run, whole)


def test_sigkill_changes_nothing_for_augsa(tmp_path):
    recipe = tiny_recipe(tmp_path)
    table = '[learner]\nkind = "augsa"\nbatch = 12\nchains = 4\ntrials = 2\nblock = 2\n[proposal]\nunits = 4\n'
    recipe.write_text(recipe.read_text().replace('[learner]\nkind = "nce"\nbatch = 6\n', table))
    whole = trf("train", recipe, "--out", tmp_path / "whole", "--quiet", "--set", f"run.epochs={EPOCHS}")
    assert (whole.returncode, whole.stderr) == (0, "")
    check_killed_and_resumed(recipe, tmp_path / "run", tmp_path / "whole")


def test_snapshots_of_nce_are_the_models_of_their_epochs_and_go_with_the_setting(tmp_path):
    recipe, run = tiny_recipe(tmp_path), tmp_path / "run"
    command = ["train", recipe, "--out", run, "--quiet", "--set", "run.checkpoint_seconds=1000"]
    assert trf(*command, "--set", "run.epochs=3", "--set", "run.snapshots=2").returncode == 0
    last = load_state(run / "snapshots" / "epoch-000003.safetensors")[0]
    assert flat(last) == flat(load_state(run / "model.safetensors")[0])
    assert load_state(run / "model.safetensors")[1]["snapshots"] == ["epoch-000002.safetensors", "epoch-000003.safetensors"]
    assert trf(*command, "--resume", "--set", "run.epochs=4", "--set", "run.snapshots=0").returncode == 0
    assert list((run / "snapshots").iterdir()) == []
    loaded = trflm.load(run)
    assert isinstance(loaded, FieldModel)
    assert len(loaded.fields) == 1


def test_resuming_at_the_end_leaves_the_model_as_it_was_bit_for_bit(tmp_path, monkeypatch):
    """However the machine that goes on rounds, and whichever files a kill after the last checkpoint left behind."""
    recipe, run = tiny_recipe(tmp_path), tmp_path / "run"
    what = read_recipe(recipe, ["run.epochs=3", "run.snapshots=1"])
    assert isinstance(what, FieldRecipe)
    saved = []
    save = Checkpoints.save_model
    monkeypatch.setattr(
        Checkpoints, "save_model", lambda *of: (saved.append(model_files(run)) if of[2].step > 6 else 0, save(*of))
    )
    train(what, run, False, Quiet())
    finished = model_files(run)
    assert list(finished) == ["model.safetensors", "epoch-000003.safetensors"]
    phi = TRF.phi
    monkeypatch.setattr(TRF, "phi", lambda trf, batch: phi(trf, batch) * (1 + 1e-12))
    train(what, run, True, Quiet())
    assert model_files(run) == finished
    assert len(saved[-2]) == 3, "an old snapshot beside the new one, and the old model"
    for name, content in saved[-2].items():
        (run / name if name == "model.safetensors" else run / "snapshots" / name).write_bytes(content)
    train(what, run, True, Quiet())
    assert model_files(run) == finished


def test_a_diverged_model_is_never_saved(tmp_path):
    recipe, run = tiny_recipe(tmp_path), tmp_path / "run"
    command = ["train", recipe, "--out", run, "--quiet"]
    assert trf(*command, "--set", "run.epochs=1").returncode == 0
    before = (run / "training.safetensors").read_bytes()
    state, note = load_state(run / "training.safetensors")
    state["trf"]["potential.readout"].fill_(3e38)
    save_state(run / "training.safetensors", state, **{k: v for k, v in note.items() if k != "format"})
    broken = (run / "training.safetensors").read_bytes()
    assert broken != before
    failed = trf(*command, "--resume", "--set", "run.epochs=2")
    assert failed.returncode == 1
    assert "diverged" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert (run / "training.safetensors").read_bytes() == broken


def test_an_end_by_minutes_holds_until_it_is_moved(tmp_path):
    recipe, run = tiny_recipe(tmp_path), tmp_path / "run"
    command = ["train", recipe, "--out", run, "--set", "run.epochs=3"]
    assert trf(*command, "--set", "run.minutes=1e-9").returncode == 0
    again = trf(*command, "--resume", "--set", "run.minutes=1e-9")
    assert (again.returncode, len(metrics(run))) == (0, 1)
    assert "nothing to do at step 1: 1e-09 minutes are over" in again.stderr


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("run.device=nowhere", "run.device = 'nowhere': cannot be used"),
        ("run.threads=-1", "run.threads = -1: must be from 0 to 1024"),
        ("learner.kind=[1]", "learner.kind = [1]: expected one of"),
        ("data.valid=DEV", "no dev sentence has a length that the training text has"),
    ],
)
def test_settings_that_cannot_be_are_refused_and_the_directory_stays_free(tmp_path, setting, message):
    recipe, run = tiny_recipe(tmp_path), tmp_path / "run"
    (tmp_path / "dev.txt").write_text("the cat sat " * 9 + "\n")
    wrong = trf("train", recipe, "--out", run, "--quiet", "--set", setting.replace("DEV", str(tmp_path / "dev.txt")))
    assert (wrong.returncode, message in wrong.stderr, "Traceback" in wrong.stderr) == (2, True, False)
    assert trf("train", recipe, "--out", run, "--quiet", "--set", "run.epochs=1").returncode == 0


def test_a_run_without_dev_text_saves_its_end(tmp_path):
    recipe, run = tiny_recipe(tmp_path), tmp_path / "run"
    settings = ("--set", "data.valid=", "--set", "run.epochs=2", "--set", "run.checkpoint_seconds=1000")
    assert trf("train", recipe, "--out", run, "--quiet", *settings).returncode == 0
    assert load_state(run / "model.safetensors")[1]["step"] == metrics(run)[-1]["step"] == 12


def test_disk_full_keeps_the_old_checkpoint(tmp_path):
    """The kernel refuses to let a file grow: the same errors reach us as from a full disk."""
    recipe, run = tiny_recipe(tmp_path), tmp_path / "run"
    assert trf("train", recipe, "--out", run, "--quiet", "--set", "run.epochs=2").returncode == 0
    before = (run / "training.safetensors").read_bytes()
    limit = len(before) // 2
    failed = fresh_trf(
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


def test_a_run_of_an_older_version_goes_on_with_the_defaults_of_newer_keys(tmp_path):
    recipe, run = tiny_recipe(tmp_path), tmp_path / "run"
    command = ["train", recipe, "--out", run, "--quiet"]
    assert trf(*command, "--set", "run.epochs=1").returncode == 0
    config = json.loads((run / "config.json").read_text())
    del config["recipe"]["run"]["keep_best"], config["recipe"]["proposal"]["classes_file"]
    (run / "config.json").write_text(json.dumps(config))
    changed = trf(*command, "--resume", "--set", "run.keep_best=true")
    assert (changed.returncode, "was started with run.keep_best = False" in changed.stderr) == (2, True)
    assert trf(*command, "--resume", "--set", "run.epochs=2").returncode == 0


def test_two_at_once_are_refused(tmp_path):
    recipe, run = tiny_recipe(tmp_path), tmp_path / "run"
    run.mkdir()
    import fcntl

    with open(run / "train.log", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = trf("train", recipe, "--out", run, "--resume")
    assert second.returncode == 2
    assert "another trf train is running there" in second.stderr


def test_resuming_a_run_of_somebody_else_writes_through_no_link(tmp_path):
    recipe, run, theirs = tiny_recipe(tmp_path), tmp_path / "run", tmp_path / "theirs"
    command = ["train", recipe, "--out", run, "--quiet", "--set", "run.snapshots=1", "--set"]
    assert trf(*command, "run.epochs=1").returncode == 0
    files = ["training.safetensors.part", "vocab.txt.part", "metrics.jsonl", "train.log", "config.json", "model.safetensors"]
    for name in [*files, "snapshots", "snapshots/epoch-000002.safetensors.part", "snapshots/epoch-000001.safetensors"]:
        place, kept = run / name, tmp_path / "kept"
        if place.exists():
            place.rename(kept)
            shutil.copytree(kept, theirs) if kept.is_dir() else shutil.copy(kept, theirs)
        else:
            theirs.write_bytes(b"precious")
        place.symlink_to(theirs)
        before = [(path, path.read_bytes()) for path in (theirs, *theirs.glob("*")) if path.is_file()]
        refused = trf(*command, "run.epochs=2", "--resume")
        assert (refused.returncode, f"{name}: is a symbolic link" in refused.stderr) == (2, True), (name, refused.stderr)
        assert before == [(path, path.read_bytes()) for path in (theirs, *theirs.glob("*")) if path.is_file()]
        place.unlink()
        if kept.exists():
            kept.rename(place)
        shutil.rmtree(theirs) if theirs.is_dir() else theirs.unlink()
    assert trf(*command, "run.epochs=2", "--resume").returncode == 0


def test_minutes_end_a_run_which_can_go_on(tmp_path):
    recipe, run = tiny_recipe(tmp_path), tmp_path / "run"
    command = ["train", recipe, "--out", run, "--quiet", "--set", "run.epochs=3"]
    assert trf(*command, "--set", "run.minutes=1e-9").returncode == 0
    assert len(metrics(run)) == 1
    assert trf(*command, "--resume").returncode == 0
    config = json.loads((run / "config.json").read_text())
    assert metrics(run)[-1]["epoch"] == config["recipe"]["run"]["epochs"] == 3
    assert os.path.exists(run / "model.safetensors")


def test_the_best_model_is_kept_when_dev_gets_worse(tmp_path):
    """Trained on one text and watched on another, an LSTM first gains by word frequencies, then learns the text by heart."""
    recipe = tiny_recipe(tmp_path, TINY_LSTM)
    (tmp_path / "dev.txt").write_text("".join(" ".join(reversed(line.split())) + "\n" for line in TINY_TEXT.splitlines()))
    changes = ["learner.kind=adam", "learner.lr=0.05", "learner.decay=1.0", f"data.valid={tmp_path / 'dev.txt'}"]

    def go_on(out, epochs: int, resume: bool = False) -> None:
        what = read_recipe(recipe, [*changes, f"run.epochs={epochs}", "run.checkpoint_seconds=0"])
        assert isinstance(what, LSTMRecipe)
        train(what, out, resume, Quiet())

    go_on(tmp_path / "run", 12)
    criteria = {row["step"]: row["criterion"] for row in metrics(tmp_path / "run") if "criterion" in row}
    best = max(criteria, key=lambda step: criteria[step])
    assert 0 < list(criteria).index(best) < 11, "dev has to get better, then worse"
    state, note = load_state(tmp_path / "run/model.safetensors")
    assert note["step"] == best
    assert load_state(tmp_path / "run/training.safetensors")[1]["step"] == max(criteria)

    # A kill between the checkpoint of the best epoch and its model: the model is written when the run goes on.
    other = tmp_path / "other"
    go_on(other, list(criteria).index(best) + 1)
    (other / "model.safetensors").unlink()
    go_on(other, 12, resume=True)
    assert flat(load_state(other / "model.safetensors")[0]) == flat(state)


def test_an_ngram_run_leaves_its_files_and_is_done_once(tmp_path):
    recipe, run = tiny_recipe(tmp_path, TINY_NGRAM), tmp_path / "run"
    first = trf("train", recipe, "--out", run, "--seed", "3", "--threads", "1")
    assert first.returncode == 0
    assert "warning: the 1-grams of this text" in first.stderr
    assert {path.name for path in run.iterdir()} == {
        "config.json", "vocab.txt", "model.safetensors", "metrics.jsonl", "train.log"
    }  # fmt: skip
    (row,) = metrics(run)
    assert row["train_perplexity"] == row["dev_perplexity"] < 10
    before = (run / "model.safetensors").stat().st_mtime_ns
    again = trf("train", recipe, "--out", run)
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
    resumed = trf("train", recipe, "--out", run, "--resume", "--seed", "3")
    assert (resumed.returncode, "finished before" in resumed.stderr) == (0, True)
    assert (run / "model.safetensors").stat().st_mtime_ns == before
    changed = trf("train", recipe, "--out", run, "--resume", "--seed", "3", "--set", "model.order=2")
    assert changed.returncode == 2
    assert "was started with model.order = 3, the recipe now says 2" in changed.stderr
