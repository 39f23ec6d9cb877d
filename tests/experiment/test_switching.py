"""One field from learner to learner: NCE, then dynamic NCE, then AugSA, each from the model of the one before (--init)."""

import json

import pytest
import torch
from commands import TINY_TEXT, tiny_recipe, trf

import trflm
from trflm.files.tensors import load_state

SMALL_PROPOSAL = ("--set", "proposal.units=6", "--set", "proposal.classes=0")


def trf_done(*arguments: object) -> None:
    done = trf(*arguments)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory):
    directory = tmp_path_factory.mktemp("switching")
    recipe = tiny_recipe(directory)
    common = ("train", recipe, "--quiet", "--set", "run.epochs=3", "--set", "model.dropout=0.1")
    nce = ("--set", "reference.order=2", "--set", "noise.kind=ngram", "--set", "learner.lr=0.05")
    trf_done(*common, *nce, "--out", directory / "nce")
    with_reference = (*common, "--set", "reference.order=2", *SMALL_PROPOSAL)
    dnce = ("--set", "learner.kind=dnce", "--set", "learner.replacements=2", "--set", "learner.lr=1e-4")
    trf_done(*with_reference, *dnce, "--init", directory / "nce", "--out", directory / "dnce")
    augsa = ("--set", "learner.kind=augsa", "--set", "learner.chains=20", "--set", "learner.calibration_steps=1000")
    trf_done(*with_reference, *augsa, "--init", directory / "dnce", "--out", directory / "augsa")
    return directory


def test_each_run_is_a_language_model(runs):
    sentences = TINY_TEXT.splitlines()[:4]
    for name in ("nce", "dnce", "augsa"):
        lm = trflm.load(runs / name)
        assert torch.isfinite(lm.log_prob(sentences)).all()
        assert len(lm.sample(3, seed=1)) == 3


def flat(state: dict, path: str = "") -> dict[str, torch.Tensor]:
    return {
        name: value
        for key, item in state.items()
        for name, value in (flat(item, f"{path}/{key}") if isinstance(item, dict) else {f"{path}/{key}": item}).items()
    }


def test_calibration_moves_zeta_and_the_proposal_but_not_theta(runs):
    before, after = (flat(load_state(runs / name / "model.safetensors")[0]) for name in ("dnce", "augsa"))
    same = {name for name in before if name in after and torch.equal(before[name], after[name])}
    assert all(name in same for name in before if "potential" in name)
    moved = before.keys() - same
    assert any("zeta" in name for name in moved)
    assert any("proposal" in name for name in moved)


def test_init_takes_the_parameters_over_and_goes_on(runs):
    """Adam at 0.05 went far from the start that both would have had; at 1e-4 it stays near the model taken over."""
    before, after = (flat(load_state(runs / name / "model.safetensors")[0]) for name in ("nce", "dnce"))
    names = [name for name in before if "potential" in name]
    steps = max(float((before[name] - after[name]).abs().max()) for name in names)
    assert 0 < steps < 0.01
    assert max(float(before[name].abs().max()) for name in names) > 0.35  # every parameter started within 0.3
    assert json.loads((runs / "dnce" / "config.json").read_text())["recipe"]["run"]["init"].endswith("nce")


def test_an_init_that_does_not_fit_is_refused(runs, tmp_path):
    recipe = tiny_recipe(tmp_path)
    done = trf("train", recipe, "--init", runs / "nce", "--out", tmp_path / "run", "--quiet")  # it has a reference, this not
    assert done.returncode == 2
    assert "does not fit the [model] and [reference] of this recipe" in done.stderr
    done = trf("train", recipe, "--init", tmp_path / "none", "--out", tmp_path / "run", "--quiet")
    assert done.returncode == 2
    assert "no model to start from" in done.stderr
    text = tmp_path / "other.txt"
    text.write_text("a zebra ran\n" * 20)
    with_other = ("--set", f"data.train={text}", "--out", tmp_path / "run", "--quiet")
    done = trf("train", recipe, *with_other, "--init", runs / "nce")
    assert done.returncode == 2
    assert "knows other words than this run" in done.stderr


def test_word_wise_nce_is_for_a_blstm_alone(tmp_path):
    recipe = tiny_recipe(tmp_path)
    done = trf("train", recipe, "--set", "learner.kind=word-nce", "--out", tmp_path / "run", "--quiet")
    assert done.returncode == 2
    assert 'kind "blstm"' in done.stderr


def test_noise_of_another_vocabulary_is_refused(tmp_path):
    other = tmp_path / "other.arpa"
    other.write_text("\\data\\\nngram 1=4\n\n\\1-grams:\n-0.5\t<unk>\n-99\t<s>\n-0.5\t</s>\n-0.5\tzebra\n\n\\end\\\n")
    recipe = tiny_recipe(tmp_path)
    trained = ("--set", "noise.kind=trained", "--set", f"noise.model={other}")
    done = trf("train", recipe, *trained, "--out", tmp_path / "run", "--quiet")
    assert done.returncode == 2
    assert "another vocabulary" in done.stderr
