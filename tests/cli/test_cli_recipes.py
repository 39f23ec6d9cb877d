"""What a newcomer types first: the overview, a mistyped command, a recipe by name, a run to go on with."""

import json

import pytest
from commands import TINY_NGRAM, metrics, tiny_recipe, trf

import trflm

SMALL = ["--set", "learner.batch=1000", "--set", "learner.noise_ratio=1"]  # two steps an epoch


def test_the_overview_names_every_command_with_one_sentence():
    shown = trf()
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == trf("--help").stdout
    assert "Train a model from a recipe.  " in shown.stdout
    assert "Ctrl-C" not in shown.stdout


def test_version():
    done = trf("--version")
    assert (done.returncode, done.stdout.startswith(f"trf {trflm.__version__} (Python ")) == (0, True)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["trian"], "trf: trian: there is no such command; did you mean trf train?"),
        (["nbest", "chek"], "trf: nbest chek: there is no such command; did you mean trf nbest check?"),
        (["zzz"], "trf: zzz: there is no such command; the commands are train, recipes,"),
        (["train"], "trf: give a recipe: trf train RECIPE --out RUN"),
        (["train", "tiny"], "trf: say where to train tiny: --out RUN"),
        (["train", "--resume"], "write trf train --resume RUN"),
        (["train", "--explain"], "trf: give a recipe to explain"),
    ],
)
def test_wrong_use_is_answered_with_what_was_meant(words, answer):
    done = trf(*words)
    assert (done.returncode, answer in done.stderr, "Traceback" in done.stderr) == (2, True, False)


@pytest.mark.parametrize("command", ["train", "tune", "nbest convert", "reproduce", "demo", "recipes copy", "wer"])
def test_defaults_read_forwards(command):
    text = trf(*command.split(), "--help").stdout
    assert text
    assert not [wrong for wrong in ("None", "(default: False)", "(default: True)", "(default: )", "''") if wrong in text]


def test_help_keeps_defaults_that_say_something():
    assert "(default: 20.0)" in trf("reproduce", "--help").stdout
    assert "--no-train" in trf("reproduce", "--help").stdout


def test_a_group_alone_shows_its_commands():
    done = trf("recipes")
    assert (done.returncode, "Copy a recipe" in done.stdout) == (0, True)


def test_list_show_and_copy(tmp_path):
    listed = trf("recipes", "list").stdout
    assert {"tiny", "ptb/kn5", "demo/trf"} <= {line.split()[0] for line in listed.splitlines() if not line.startswith(" ")}
    assert "[model]" in trf("recipes", "show", "ptb/kn5").stdout
    assert trf("recipes", "copy", "tiny", tmp_path / "mine").returncode == 0
    assert sorted(path.name for path in (tmp_path / "mine").rglob("*.t*")) == ["tiny.toml", "train.txt", "valid.txt"]
    (tmp_path / "mine/tiny.toml").write_text("mine now\n")
    again = trf("recipes", "copy", "tiny", tmp_path / "mine")
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
    assert (tmp_path / "mine/tiny.toml").read_text() == "mine now\n"
    assert trf("recipes", "copy", "ptb", tmp_path / "all").returncode == 0
    assert (tmp_path / "all/tables.toml").exists()
    assert (tmp_path / "all/kn5.toml").exists()


def test_a_recipe_by_name_trains_anywhere_and_is_resumed_from_anywhere(tmp_path):
    for directory in ("here", "there"):
        (tmp_path / directory).mkdir()
    whole = trf("train", "tiny", "--out", "run", *SMALL, "--set", "run.epochs=2", "--quiet", cwd=tmp_path / "there")
    assert whole.returncode == 0
    assert trf("train", "tiny", "--out", "run", *SMALL, "--set", "run.epochs=1", cwd=tmp_path / "here").returncode == 0
    resumed = trf("train", "--resume", "here/run", "--set", "run.epochs=2", cwd=tmp_path)
    assert (resumed.returncode, "resumed at step 2" in resumed.stderr) == (0, True)
    assert metrics(tmp_path / "here/run") == metrics(tmp_path / "there/run")
    same = [(tmp_path / at / "run/model.safetensors").read_bytes() for at in ("here", "there")]
    assert same[0] == same[1]


def test_a_run_on_a_relative_path_is_resumed_from_elsewhere_and_by_its_recipe(tmp_path):
    (tmp_path / "work").mkdir()
    recipe = tiny_recipe(tmp_path / "work", TINY_NGRAM)
    recipe.write_text(TINY_NGRAM.format(text="text.txt"))
    started = trf("train", "tiny.toml", "--out", "run", "--quiet", cwd=tmp_path / "work")
    assert started.returncode == 0
    config = json.loads((tmp_path / "work/run/config.json").read_text())
    assert config["recipe"]["data"]["train"] == "text.txt"
    for words, cwd in [
        (["--resume", "work/run"], tmp_path),
        (["--resume", "--out", "run"], tmp_path / "work"),
        (["work/tiny.toml", "--out", "work/run", "--resume"], tmp_path),
    ]:
        done = trf("train", *words, cwd=cwd)
        assert (done.returncode, "finished before" in done.stderr) == (0, True), done.stderr
    (tmp_path / "other.txt").write_text("another text\n")
    other = trf("train", "--resume", "work/run", "--set", "data.train=other.txt", cwd=tmp_path)
    assert (other.returncode, "data.train" in other.stderr) == (2, True)


def test_a_run_that_moved_with_its_text_is_resumed(tmp_path):
    (tmp_path / "before").mkdir()
    tiny_recipe(tmp_path / "before", TINY_NGRAM).write_text(TINY_NGRAM.format(text="text.txt"))
    assert trf("train", "tiny.toml", "--out", "run", "--quiet", cwd=tmp_path / "before").returncode == 0
    (tmp_path / "before").rename(tmp_path / "after")
    assert trf("train", "--resume", "run", cwd=tmp_path / "after").returncode == 0


def test_explain_trains_nothing(tmp_path):
    done = trf("train", "ptb/kn5", "--explain", "--set", "model.order=3", cwd=tmp_path)
    assert (
        done.returncode,
        "order = 3  # whole number from 1 to 20; words of the longest n-grams (default 5)" in done.stdout,
    ) == (0, True)
    assert list(tmp_path.iterdir()) == []


def test_wer_says_what_it_read_and_what_it_cannot_know(tmp_path):
    (tmp_path / "hyp").write_text("the hat sat (spk_u1)\non mat (spk_u2)\n")
    (tmp_path / "ref").write_text("the cat sat (spk_u1)\non the mat (spk_u2)\n")
    done = trf("wer", "hyp", "ref", "--against", "ref", "--align", cwd=tmp_path)
    assert "read as trn (lines `word ... (UTT)`)" in done.stderr
    assert "hyp: WER 33.33% (too few utterances for an interval)  2 / 6 words  S 1 D 1 I 0" in done.stdout
    assert "p =" not in done.stdout
    assert "p <" not in done.stdout
    assert "  heard  on *** mat\n" in done.stdout
    record = json.loads(trf("wer", "hyp", "ref", "--unit", "char", "--json", "--align", "--quiet", cwd=tmp_path).stdout)
    assert (record["unit"], record["format"], record["errors"], record["words"]) == ("char", "trn", 4, 17)
    assert record["alignments"]["spk_u1"][3] == ["c", "h"]
