"""A tiny recipe for every learner that a recipe can name."""

from pathlib import Path
from typing import Any, get_args, get_type_hints

from commands import TINY_TEXT

from trflm.experiment.directory import RunDirectory
from trflm.experiment.recipe import FieldRecipe, LSTMRecipe, NGramRecipe, parse_recipe
from trflm.experiment.store import save_model
from trflm.learning import FIELD_LEARNERS, LSTM_LEARNERS
from trflm.lms.ngram import kneser_ney

SIZES = {"embedding": 4, "projection": 4, "bank_width": 3, "bank_filters": 4, "stack_layers": 1, "stack_filters": 4}
CNN = {"kind": "cnn", "dropout": 0.2, **SIZES}
BLSTM = {"kind": "blstm", "embedding": 4, "units": 4}
LSTM = {"kind": "lstm", "embedding": 4, "hidden": 4, "layers": 1, "dropout": 0.2}
DISCRETE = {"kind": "discrete", "classes": 3}
PROPOSAL = {"units": 4, "classes": 3}
SECTIONS: dict[str, dict[str, Any]] = {
    "augsa": {"model": CNN, "proposal": PROPOSAL, "learner": {"batch": 4, "chains": 3, "trials": 2}},
    "nce": {
        "model": CNN,
        "noise": {"kind": "ngram", "order": 2},
        "learner": {"batch": 4, "replacements": 2},
    },
    "dnce": {"model": CNN, "proposal": PROPOSAL, "learner": {"batch": 4}},
    "word-nce": {"model": BLSTM, "learner": {"batch": 4, "noise_words": 5}},
    "cloze": {"model": CNN, "reference": {"order": 1}, "learner": {"batch": 4}},
    "distil": {"model": CNN, "reference": {"order": 1}, "learner": {"batch": 4, "teachers": ["TEACHER"]}},
    "word-choice": {"model": DISCRETE, "learner": {"batch": 4}},
    "sgd": {"model": LSTM, "learner": {"streams": 2, "window": 5}},
    "adam": {"model": LSTM, "learner": {"streams": 2, "window": 5}},
}
KINDS = [get_args(get_type_hints(config)["kind"])[0] for config in (*FIELD_LEARNERS, *LSTM_LEARNERS)]


def recipe_of(kind: str, directory: Path, *, stream_above: int = 500, **learner: Any) -> FieldRecipe | LSTMRecipe:
    """The recipe of a learner on the tiny text, which is written to the directory, with further keys of its own;
    with `stream_above` 0 it is read from disk."""
    text = directory / "text.txt"
    text.write_text(TINY_TEXT)
    sections = {name: dict(section) for name, section in SECTIONS[kind].items()}
    sections["learner"] |= {"kind": kind, **learner}
    if "teachers" in sections["learner"]:
        sections["learner"]["teachers"] = [teacher(directory)]
    data = {"train": str(text), "valid": str(text), "stream_above": stream_above}
    recipe = parse_recipe({"data": data, **sections}, "recipe")
    assert isinstance(recipe, FieldRecipe | LSTMRecipe)
    return recipe


def teacher(directory: Path) -> str:
    """The run of a bigram model."""
    recipe = parse_recipe({"data": {"train": str(directory / "text.txt")}, "model": {"kind": "ngram", "order": 2}}, "recipe")
    assert isinstance(recipe, NGramRecipe)
    data, run = recipe.data.read(), directory / "teacher"
    run.mkdir(exist_ok=True)
    with RunDirectory(run, recipe, data):
        save_model(run / "model.safetensors", kneser_ney(data.train.sentences, data.vocab, recipe.model))
    return str(run)
