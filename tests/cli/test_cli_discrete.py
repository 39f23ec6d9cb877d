"""A discrete field through the commands: train, resume, start, score, explain, sample; what is wrong is said in one line."""

import json

import pytest
import torch
from commands import tiny_recipe, trf

import trflm
from trflm.field.snapshots import FieldModel
from trflm.potentials.discrete import Discrete

RECIPE = """
[data]
train = "{text}"
valid = "{text}"
[model]
kind = "discrete"
features = "w+c+ws+tied"
classes = 4
[learner]
kind = "word-choice"
batch = 6
words = 5
lr = 0.05
l2 = 1e-3
[run]
epochs = 3
checkpoint_seconds = 0
threads = 1
"""
TEXT = "the cat ran\na zebra sat\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(recipe, run)."""
    directory = tmp_path_factory.mktemp("discrete")
    recipe = tiny_recipe(directory, RECIPE)
    done = trf("train", recipe, "--out", directory / "run", "--quiet")
    assert done.returncode == 0, done.stderr
    return recipe, directory / "run"


def discrete(run) -> Discrete:
    lm = trflm.load(run)
    assert isinstance(lm, FieldModel)
    potential = lm.fields[-1].potential
    assert isinstance(potential, Discrete)
    return potential


def test_the_model_file_holds_features_and_is_scored_explained_and_sampled(trained):
    _, run = trained
    lm = trflm.load(run)
    assert len(discrete(run).features) > 50
    scores = [float(line) for line in trf("score", run, stdin=TEXT).stdout.splitlines()]
    assert scores == pytest.approx(lm.log_prob(TEXT.splitlines()).tolist(), abs=1e-5)
    explained = trf("explain", run, stdin=TEXT)
    assert float(explained.stdout.splitlines()[0].split()[3]) == pytest.approx(scores[0], abs=1e-3)
    sampled = trf("sample", run, "-n", 3, "--length", 3)
    assert [len(line.split()) for line in sampled.stdout.splitlines()] == [3, 3, 3]
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    choices = [row["dev_choice"] for row in rows if "dev_choice" in row]
    assert choices[-1] > choices[0]


def test_a_resumed_run_is_the_same_run(trained, tmp_path):
    recipe, run = trained
    assert trf("train", recipe, "--out", tmp_path / "run", "--quiet", "--set", "run.epochs=1").returncode == 0
    done = trf("train", recipe, "--out", tmp_path / "run", "--quiet", "--resume")
    assert done.returncode == 0, done.stderr
    assert torch.equal(discrete(tmp_path / "run").weight, discrete(run).weight)


@pytest.mark.parametrize("learner", ["nce", "dnce", "augsa"])
def test_other_learners_go_on_from_it(trained, tmp_path, learner):
    recipe, run = trained
    few = ["run.epochs=1", "learner.batch=6", f"run.init={run}", "proposal.units=4"]
    plain = tmp_path / "r.toml"
    plain.write_text(recipe.read_text().split("[learner]")[0] + f'[learner]\nkind = "{learner}"\nl2 = 1e-3\n')
    options = [option for setting in few for option in ("--set", setting)]
    done = trf("train", plain, "--out", tmp_path / "run", "--quiet", *options)
    assert done.returncode == 0, done.stderr
    before, after = discrete(run), discrete(tmp_path / "run")
    assert torch.equal(before.key_K, after.key_K)
    assert 0 < float((before.weight - after.weight).detach().abs().max()) < 1
    refused = trf("train", plain, "--out", tmp_path / "other", *options, "--set", "model.min_counts=[2]")
    assert (refused.returncode, "features or word classes are not those" in refused.stderr) == (2, True)


def test_what_is_wrong_is_said_in_one_line(trained, tmp_path):
    recipe, run = trained
    lacking, short = tmp_path / "classes.txt", tmp_path / "short.txt"
    lacking.write_text("the 0\n")
    short.write_text("the cat sat\n")
    for setting, message in (
        ("model.features=w+skip", "'skip' is no feature type"),
        ("model.min_counts=[1000]", "no feature occurs as often as min_counts = [1000] asks"),
        (f"model.classes_file={lacking}", "words of the vocabulary have no class"),
        (f"data.train={short}", "knows other words than this run"),
        ("model.order=5", "order = 5: must be from 1 to 4"),
    ):
        done = trf("train", recipe, "--out", tmp_path / "run", "--quiet", "--set", setting, "--set", f"run.init={run}")
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1
