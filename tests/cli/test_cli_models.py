"""Every command on every kind of model, through real processes and the one protocol."""

import json
import math
import shutil

import pytest
import torch
from commands import AUGSA, TINY_LSTM, TINY_NGRAM, TINY_TEXT, tiny_recipe, trf

import trflm
from trflm.errors import InputError
from trflm.field.snapshots import FieldModel
from trflm.lms.lstm import LSTM, Preserve
from trflm.lms.ngram import NGram, write_arpa
from trflm.sampling.exact import all_sentences

TEXT = "the cat ran\na zebra sat\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A run directory or file of each kind."""
    directory = tmp_path_factory.mktemp("models")
    for kind, recipe in (("ngram", TINY_NGRAM), ("lstm", TINY_LSTM)):
        (directory / kind).mkdir()
        run = directory / f"{kind}-run"
        done = trf("train", tiny_recipe(directory / kind, recipe), "--out", run, "--quiet")
        assert done.returncode == 0, done.stderr
    ngram = trflm.load(directory / "ngram-run")
    assert isinstance(ngram, NGram)
    write_arpa(ngram, directory / "model.arpa.gz")
    return {"ngram": directory / "ngram-run", "lstm": directory / "lstm-run", "arpa": directory / "model.arpa.gz"}


@pytest.mark.parametrize("kind", ["ngram", "lstm", "arpa"])
def test_score_sample_and_perplexity_are_those_of_the_loaded_model(models, kind):
    lm = trflm.load(models[kind])
    scores = trf("score", models[kind], stdin=TEXT)
    log_prob = lm.log_prob(TEXT.splitlines()).tolist()
    assert [float(line) for line in scores.stdout.splitlines()] == pytest.approx(log_prob, abs=1e-5)
    assert "1 of 6 words are not in the vocabulary" in scores.stderr
    sampled = trf("sample", models[kind], "-n", 3, "--seed", 5, "--length", 4)
    assert sampled.stdout.splitlines() == lm.sample(3, seed=5, length=4)
    measured = json.loads(trf("perplexity", models[kind], "-", "--json", stdin=TEXT).stdout)
    assert measured["perplexity"] == pytest.approx(math.exp(-sum(log_prob) / 8), rel=1e-6)
    assert (measured["sentences"], measured["words"], measured["unk"]) == (2, 6, 1)


def test_explain_adds_up_for_an_lstm(models):
    done = trf("explain", models["lstm"], stdin=TEXT)
    assert float(done.stdout.splitlines()[0].split()[3]) == pytest.approx(
        float(trflm.load(models["lstm"]).log_prob(["the cat ran"])), abs=1e-3
    )


def test_the_perplexity_of_a_text_read_in_order(models, tmp_path):
    lstm = trflm.load(models["lstm"])
    assert isinstance(lstm, LSTM)
    (tmp_path / "t.txt").write_text(TEXT * 30)
    done = trf("perplexity", models["lstm"], tmp_path / "t.txt", "--preserve", "--quiet")
    expected = math.exp(-float(Preserve(lstm, 20).log_prob(TEXT.splitlines() * 30).sum()) / 240)
    name, value = done.stdout.splitlines()[0].split()
    assert (name, float(value)) == ("perplexity", pytest.approx(expected, abs=1e-3))
    refused = trf("perplexity", models["ngram"], tmp_path / "t.txt", "--preserve")
    assert (refused.returncode, "--preserve is for LSTM models" in refused.stderr) == (2, True)


def test_a_random_field_has_an_interval(tmp_path):
    """Lengths that training had are short enough to be summed over; of six words there are too many sentences."""
    assert trf("train", tiny_recipe(tmp_path), "--out", tmp_path / "run", "--quiet", "--set", "run.epochs=1").returncode == 0
    done = trf("perplexity", tmp_path / "run", tmp_path / "text.txt")
    assert done.returncode == 0, done.stderr
    name, low, high = done.stdout.splitlines()[-1].split()
    assert (name, low) == ("perplexity", high)
    lm = trflm.load(tmp_path / "run")
    assert trflm.perplexity(lm, TINY_TEXT.splitlines()).low == pytest.approx(float(low), abs=1e-3)

    (tmp_path / "long.txt").write_text(TINY_TEXT + "the cat sat the dog ran\n" * 2)
    short_work = ("--minutes", "0.001", "--gap", "50%", "--burn-in", 2)
    done = trf("perplexity", tmp_path / "run", tmp_path / "long.txt", "--check", "ais", *short_work)
    assert done.returncode == 0, done.stderr
    low, high = map(float, done.stdout.splitlines()[-1].split()[1:])
    assert 1 < low < high < math.inf
    assert "at least: proven, but for a chance of 5 %" in done.stdout
    assert "lengths never seen in training, with pi floored: 6" in done.stdout
    assert "checked by annealed importance sampling" in done.stdout
    assert "they agree" in done.stdout
    assert "round 1  perplexity" in done.stderr
    row = json.loads(trf("perplexity", tmp_path / "run", tmp_path / "long.txt", "--json", "--method", "is", *short_work).stdout)
    assert row["at least"] == row["low"] < row["high"] == row["at most"]
    assert row["counted"] == row["words"] + row["sentences"]
    assert row["by its own zeta"] > 1
    assert "check" not in row
    checked = trf("perplexity", tmp_path / "run", tmp_path / "long.txt", "--json", "--check", "is", *short_work)
    assert json.loads(checked.stdout)["check"]["agrees"]
    refused = trf("perplexity", tmp_path / "run", tmp_path / "long.txt", "--gap", "narrow")
    assert (refused.returncode, "--gap narrow: give a share" in refused.stderr) == (2, True)


@pytest.mark.parametrize("changes", [[], ["reference.order=2"], AUGSA], ids=["nce", "reference", "snapshots"])
@pytest.mark.filterwarnings("ignore:the .-grams of this text")
def test_a_calibrated_field_sums_to_pi(tmp_path, changes):
    options = [option for change in ["run.epochs=2", *changes] for option in ("--set", change)]
    assert trf("train", tiny_recipe(tmp_path), "--out", tmp_path / "run", "--quiet", *options).returncode == 0
    done = trf("calibrate", tmp_path / "run", "--out", tmp_path / "calibrated", "--minutes", 1)
    assert done.returncode == 0, done.stderr
    lm, before = trflm.load(tmp_path / "calibrated"), trflm.load(tmp_path / "run")
    assert isinstance(lm, FieldModel)
    assert isinstance(before, FieldModel)
    assert len(lm.fields) == len(before.fields) == (2 if changes is AUGSA else 1)
    everything = all_sentences(len(lm.vocab), 3)
    for one, old in zip(lm.fields, before.fields, strict=True):
        log_p = one.log_prob(everything)
        sums = torch.zeros(4, dtype=torch.float64).index_add(0, everything.lengths_B, log_p.exp())
        torch.testing.assert_close(sums, one.pi, rtol=1e-4, atol=1.1e-5)  # no sentence has two words: pi is floored there
        assert torch.equal(one.phi(everything), old.phi(everything))
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["1", "3"]
    again = trf("calibrate", tmp_path / "run", "--out", tmp_path / "calibrated")
    assert (again.returncode, "is there already" in again.stderr) == (2, True)


def test_models_that_do_not_fit_or_are_not_there(models, tmp_path):
    for kind in ("ngram", "lstm"):
        copy = tmp_path / kind
        shutil.copytree(models[kind], copy)
        (copy / "vocab.txt").write_text("<unk>\nthe\n")
        with pytest.raises(InputError, match=r"model\.safetensors: does not belong to"):
            trflm.load(copy)
    done = trf("score", tmp_path / "none.arpa", stdin=TEXT)
    assert (done.returncode, "none.arpa: cannot be read" in done.stderr) == (2, True)
    (tmp_path / "a.arpa").write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-1 a\n-99 <s>\n-1 </s>\n\n\\end\\\n")
    done = trf("score", tmp_path / "a.arpa", stdin="a\n")
    assert (done.returncode, float(done.stdout)) == (0, pytest.approx(-2 * math.log(10), abs=1e-5))
    assert done.stderr.startswith("trf: ")
    assert len(done.stderr.splitlines()) == 1
