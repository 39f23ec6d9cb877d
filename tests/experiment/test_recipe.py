import dataclasses
import json

import pytest

from trflm.errors import InputError
from trflm.experiment.data import files_of
from trflm.experiment.recipe import FieldRecipe, LSTMRecipe, NGramRecipe, read_recipe
from trflm.experiment.toml import parse
from trflm.learning.lstm import SGDConfig
from trflm.learning.nce import NCEConfig
from trflm.potentials.cnn.model import CNNConfig


@pytest.fixture
def recipe(tmp_path):
    def write(text: str):
        path = tmp_path / "r.toml"
        path.write_text(text)
        return path

    return write


GOOD = '[data]\ntrain = "t.txt"\n[model]\nkind = "cnn"\nembedding = 8\n[learner]\nkind = "nce"\nlr = 1\n'


def test_values_defaults_and_overrides(recipe):
    r = read_recipe(recipe(GOOD), ["learner.batch=7", "data.train=other file.txt", "run.minutes=1.5"])
    assert isinstance(r, FieldRecipe)
    assert isinstance(r.learner, NCEConfig)
    assert isinstance(r.model, CNNConfig)
    assert (r.model.embedding, r.model.projection) == (8, 128)
    assert (r.learner.batch, r.learner.lr) == (7, 1.0)
    assert isinstance(r.learner.lr, float)
    assert r.data.train == "other file.txt"
    assert r.run.minutes == 1.5


LSTM = '[data]\ntrain = "t.txt"\n[model]\nkind = "lstm"\nhidden = 8\n'
NGRAM = '[data]\ntrain = "t.txt"\n[model]\nkind = "ngram"\nmin_counts = [1, 1, 2]\n'


def test_the_kind_of_model_says_which_sections_there_are(recipe):
    lstm, ngram = read_recipe(recipe(LSTM)), read_recipe(recipe(NGRAM))
    assert isinstance(lstm, LSTMRecipe)
    assert isinstance(lstm.learner, SGDConfig)
    assert isinstance(ngram, NGramRecipe)
    assert ngram.model.min_counts == (1, 1, 2)


@pytest.mark.parametrize("text", [GOOD, LSTM, NGRAM])
def test_a_saved_recipe_reads_back_the_same(recipe, text):
    r = read_recipe(recipe(text))
    assert parse(type(r), json.loads(json.dumps(dataclasses.asdict(r))), where="config.json") == r


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "btach = 3\n", r"r\.toml: learner\.btach: unknown key; did you mean batch\?"),
        (GOOD + "[lerner]\n", r"r\.toml: \[lerner\]: unknown section; did you mean learner\?"),
        (GOOD + 'batch = "many"\n', r"r\.toml: learner\.batch = 'many': expected a whole number"),
        (GOOD + "batch = 1.5\n", r"learner\.batch = 1\.5: expected a whole number"),
        (GOOD + "batch = true\n", r"learner\.batch = True: expected a whole number"),
        (GOOD + "batch = 0\n", r"r\.toml: learner\.batch = 0: must be from 1 to 1000000"),
        (GOOD.replace("nce", "nec"), r"learner\.kind = 'nec': expected one of augsa, nce, .*; did you mean 'nce'\?"),
        (
            GOOD.replace('"cnn"', '"lstn"'),
            r"model\.kind = 'lstn': expected one of cnn, blstm, cnn-blstm, discrete, mixed, lstm, ngram; did you mean 'lstm'\?",
        ),
        ('model = "cnn"\n' + NGRAM.partition("[model]")[0], r"model = 'cnn': expected a section \[model\]"),
        (
            GOOD.replace('"cnn"\nembedding = 8', '"mixed"'),
            r"r\.toml: \[model\] parts is missing: give a section \[\[model\.parts",
        ),
        (GOOD.replace("embedding", "dropout"), r"r\.toml: model\.dropout = 8: must be from 0 to 1"),
        (LSTM + '[learner]\nkind = "nce"\n', r"learner\.kind = 'nce': expected one of sgd, adam"),
        (LSTM + "[proposal]\n", r"\[proposal\]: unknown section"),
        (LSTM + "dropout = 1\n", r"r\.toml: \[model\] dropout is a probability below 1"),
        (LSTM + "[run]\nsnapshots = 3\n", r"r\.toml: run\.snapshots: .* random field only"),
        (LSTM + "[learner]\ncosine_epochs = 3\n[run]\nepochs = 4\n", r"learner\.cosine_epochs = 3: nothing .* run\.epochs = 4"),
        (GOOD + "[run]\nsnapshots = 3\nkeep_best = true\n", r"\[run\] keep_best keeps one model.* leave out one of them"),
        (LSTM + "[learner]\ndecay = 2\n", r"learner\.decay = 2: must be from 0 to 1"),
        (NGRAM + "[learner]\n", r"\[learner\]: unknown section"),
        (NGRAM + "order = 2\n", r"r\.toml: \[model\] min_counts has 3 values, the model 2 orders"),
        ("[data]\n", r"r\.toml: \[data\] train is missing"),
        ("", r"r\.toml: \[data\] train is missing"),
        ("data = 3\n", r"data = 3: expected a section \[data\]"),
        ("[data\n", r"r\.toml: not valid TOML: .*line 1"),
    ],
)
def test_mistakes_are_named(recipe, text, message):
    with pytest.raises(InputError, match=message):
        read_recipe(recipe(text))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("learner.bach=3", "did you mean batch"),
        ("batch=3", "write it as section.key=value"),
        ("learner.batch", "write it as section.key=value"),
        ("learner.batch.size=3", "expected a whole number"),
    ],
)
def test_bad_overrides_are_named(recipe, override, message):
    with pytest.raises(InputError, match=message):
        read_recipe(recipe(GOOD), [override])


def test_a_missing_recipe_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.toml: there is no such recipe"):
        read_recipe(tmp_path / "none.toml")


@pytest.mark.parametrize("name", ["x" * 100_000, "[" * 100_000])
def test_a_path_longer_than_any_is_no_file_and_no_pattern(recipe, name):
    made = read_recipe(recipe(GOOD.replace("t.txt", name)))
    assert made.data.train == name
    with pytest.raises(InputError, match=r"no file has such a name|there is no such file"):
        files_of(made.data.train)


def test_the_recipes_of_the_project_are_valid():
    from pathlib import Path

    from trflm.reproduce.plan import FILE, read_plan

    paths = list((Path(__file__).parents[2] / "recipes").rglob("*.toml"))
    assert paths
    for path in paths:
        if path.name == FILE:
            read_plan(path.parent)
        else:
            read_recipe(path)
