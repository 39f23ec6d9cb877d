"""`trf train` with the learners cloze and distil: from the one to the other, and resumed bit for bit."""

from pathlib import Path
from typing import Any

import torch
from commands import TINY_NGRAM, tiny_recipe, trf

import trflm
from trflm.field.snapshots import FieldModel
from trflm.files.tensors import load_state
from trflm.potentials.tilted import Tilted

FLAT = ("--set", "reference.order=1")
CLOZE = ("--set", "learner.kind=cloze", "--set", "learner.lr=0.02", "--set", "learner.warm_up=3", "--set", "model.dropout=0.1")


def done(*arguments: object) -> None:
    ran = trf(*arguments, "--quiet")
    assert ran.returncode == 0, ran.stderr


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def same(one: Path, two: Path) -> bool:
    return equal(*(load_state(run / "training.safetensors")[0] for run in (one, two)))


def test_cloze_then_distil_and_resumed_bit_for_bit(tmp_path):
    recipe = tiny_recipe(tmp_path)
    cloze = ("train", recipe, *FLAT, *CLOZE)
    done(*cloze, "--set", "run.epochs=2", "--out", tmp_path / "cloze")
    teachers = (
        "--set",
        f'learner.teachers=["{tmp_path / "cloze"}", "{tmp_path / "cloze"}"]',
        "--set",
        "learner.weights=[0.5, 1]",
    )
    distil = ("train", recipe, *FLAT, "--init", tmp_path / "cloze", "--set", "learner.kind=distil", *teachers)
    done(*distil, "--set", "run.epochs=2", "--out", tmp_path / "student")
    done(*distil, "--set", "run.epochs=1", "--out", tmp_path / "again")
    done(*distil, "--set", "run.epochs=2", "--out", tmp_path / "again", "--resume")
    assert same(tmp_path / "student", tmp_path / "again")
    assert not same(tmp_path / "student", tmp_path / "cloze")
    lm = trflm.load(tmp_path / "student")
    assert torch.isfinite(lm.log_prob(["the cat ran", "a dog sat", "ran"])).all()


def test_a_student_learns_on_drawn_sentences_alone_and_is_resumed_bit_for_bit(tmp_path):
    """On a share of a bigram model; from a teacher that is drawn from and another that says what the sentences are worth."""
    recipe = tiny_recipe(tmp_path)
    done("train", recipe, *FLAT, *CLOZE, "--set", "run.epochs=1", "--out", tmp_path / "cloze")
    done("train", tiny_recipe(tmp_path, TINY_NGRAM), "--out", tmp_path / "ngram")
    tiny_recipe(tmp_path)
    learner = ["kind=distil", f'teachers=["{tmp_path / "cloze"}", "{tmp_path / "ngram"}"]', "weights=[1, 0]"]
    learner += ["batch=0", "drawn=8", "uses=2", "share=0.3"]
    settings = [word for setting in learner for word in ("--set", f"learner.{setting}")]
    distil = ("train", recipe, "--set", "reference.order=2", "--init", tmp_path / "cloze", *settings)
    done(*distil, "--set", "run.epochs=2", "--out", tmp_path / "student")
    done(*distil, "--set", "run.epochs=1", "--out", tmp_path / "again")
    done(*distil, "--set", "run.epochs=2", "--out", tmp_path / "again", "--resume")
    assert same(tmp_path / "student", tmp_path / "again")
    lm = trflm.load(tmp_path / "student")
    assert isinstance(lm, FieldModel)
    tilted = lm.fields[-1].potential
    assert isinstance(tilted, Tilted)
    assert float(tilted.share) == 0.3
    alone = [setting.replace(f', "{tmp_path / "ngram"}"', "").replace("[1, 0]", "[1]") for setting in settings]
    ran = trf("train", recipe, *FLAT, "--init", tmp_path / "cloze", *alone, "--out", tmp_path / "run", "--quiet")
    assert ran.returncode == 2
    assert "no teacher can be drawn from" in ran.stderr


def test_what_does_not_fit_is_said(tmp_path):
    recipe = tiny_recipe(tmp_path)
    ran = trf("train", recipe, *CLOZE, "--out", tmp_path / "run", "--quiet")
    assert ran.returncode == 2
    assert "reference.order = 1" in ran.stderr
    ran = trf("train", recipe, *FLAT, "--set", "learner.kind=distil", "--out", tmp_path / "run", "--quiet")
    assert ran.returncode == 2
    assert "teachers is missing" in ran.stderr
    text = tmp_path / "other.txt"
    text.write_text("a zebra ran\n" * 20)
    other = tiny_recipe(tmp_path)
    done("train", other, "--set", f"data.train={text}", "--set", "run.epochs=1", "--out", tmp_path / "other")
    teachers = ("--set", "learner.kind=distil", "--set", f'learner.teachers=["{tmp_path / "other"}"]')
    ran = trf("train", recipe, *FLAT, *teachers, "--out", tmp_path / "run", "--quiet")
    assert ran.returncode == 2
    assert "another vocabulary" in ran.stderr
