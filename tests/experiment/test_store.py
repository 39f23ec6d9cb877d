"""The classes of the proposal's output: by frequency, by exchange, from a file; and a model that comes back with them."""

import os
from pathlib import Path

import pytest
import torch
from commands import TINY_TEXT, tiny_recipe, trf
from harness import random_batch, tiny_vocab

from trflm.errors import InputError
from trflm.experiment import store
from trflm.experiment.directory import RunDirectory
from trflm.experiment.recipe import FieldRecipe, read_recipe
from trflm.experiment.store import load_model, save_model
from trflm.field.snapshots import FieldModel
from trflm.kinds import Start
from trflm.learning.augsa import AugSA
from trflm.learning.nce import NCE
from trflm.lms.ngram import KneserNeyConfig, NGram, kneser_ney
from trflm.lms.proposals.lstm import LSTMProposalConfig
from trflm.potentials.blstm import BLSTM
from trflm.potentials.cnn.model import CNN
from trflm.potentials.mixed import Mixed
from trflm.seeds import generator
from trflm.text.classes import exchange_classes, write_classes
from trflm.text.word2vec import word2vec

RECIPE = """
[data]
train = "{directory}/text.txt"
[model]
embedding = 4
projection = 4
bank_filters = 4
stack_filters = 4
[proposal]
units = 4
classes_file = "{directory}/classes.txt"
[learner]
batch = 6
chains = 4
"""


@pytest.fixture
def recipe(tmp_path, monkeypatch) -> FieldRecipe:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "text.txt").write_text(TINY_TEXT)
    (tmp_path / "r.toml").write_text(RECIPE.format(directory=tmp_path))
    recipe = read_recipe(tmp_path / "r.toml")
    assert isinstance(recipe, FieldRecipe)
    return recipe


def test_classes_by_frequency_by_exchange_and_from_a_file(recipe, tmp_path):
    data = recipe.data.read()
    V, start = len(data.vocab), Start(data.vocab, data.train.sentences)
    assert LSTMProposalConfig(classes=0).word_classes(start) is None
    by_frequency = LSTMProposalConfig(classes=2).word_classes(start)
    assert by_frequency is not None
    assert torch.bincount(by_frequency).tolist() == [V // 2, V - V // 2]
    for _ in range(2):  # computed, then from the cache
        by_exchange = LSTMProposalConfig(classes=4, exchange=True).word_classes(start)
        expected = exchange_classes(data.train.sentences, V, 4).class_V
        assert by_exchange is not None
        assert torch.equal(by_exchange[:, None] == by_exchange, expected[:, None] == expected)
    write_classes(torch.arange(V) % 2 * 5, data.vocab, tmp_path / "classes.txt")  # classes 0 and 5
    from_file = recipe.proposal.word_classes(start)
    assert from_file is not None
    assert from_file.tolist() == (torch.arange(V) % 2).tolist()
    with pytest.raises(ValueError, match="leave out one of them"):
        LSTMProposalConfig(exchange=True, classes_file="x")


def test_a_model_comes_back_with_its_classes_and_a_run_refuses_others(recipe, tmp_path):
    data = recipe.data.read()
    V = len(data.vocab)
    write_classes((torch.arange(V) > 0).long(), data.vocab, tmp_path / "classes.txt")  # of very different sizes
    learner = recipe.build(data, fresh=True)
    assert isinstance(learner, AugSA)
    (tmp_path / "run").mkdir()
    with RunDirectory(tmp_path / "run", recipe, data):
        save_model(tmp_path / "run/model.safetensors", learner.model, step=0)
    (tmp_path / "classes.txt").unlink()
    lm = load_model(tmp_path / "run")
    assert isinstance(lm, FieldModel)
    batch = data.vocab.batch(["the cat ran", "a bird"])
    assert torch.equal(lm.proposal.log_q(batch), learner.proposal.log_q(batch))

    write_classes(torch.arange(V) % 2, data.vocab, tmp_path / "classes.txt")
    other = recipe.build(data, fresh=False)
    with pytest.raises(InputError, match="not those the run was started with"):
        other.load_state_dict(learner.state_dict())


BLSTM_PART = 'kind = "blstm"\nembedding = 4\nunits = 5\nlayers = 2\nword2vec = true\n'
CNN_PART = (
    "embedding = 4\nprojection = 4\nbank_width = 3\nbank_filters = 4\nstack_layers = 1\nstack_filters = 4\nword2vec = true\n"
)
POTENTIALS = {
    "blstm": "[model]\n" + BLSTM_PART,
    "cnn-blstm": '[model]\nkind = "cnn-blstm"\nunits = 5\n' + CNN_PART,
    "mixed": f'[model]\nkind = "mixed"\n[[model.parts]]\n{CNN_PART}[[model.parts]]\n{BLSTM_PART}',
}


@pytest.mark.parametrize("kind", POTENTIALS)
def test_a_field_of_each_potential_starts_from_word2vec_learns_and_comes_back(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "text.txt").write_text(TINY_TEXT)
    train = f'[data]\ntrain = "{tmp_path}/text.txt"\n'
    (tmp_path / "r.toml").write_text(f'{train}{POTENTIALS[kind]}[learner]\nkind = "nce"\nbatch = 6\n')
    recipe = read_recipe(tmp_path / "r.toml")
    assert isinstance(recipe, FieldRecipe)
    assert recipe.model.kind == kind
    data = recipe.data.read()
    learner = recipe.build(data, fresh=True)
    assert isinstance(learner, NCE)
    potential = learner.trf.potential
    text = data.train.sentences.whole()
    words_U, vector_UE = word2vec(text, len(data.vocab), 4, recipe.run.seed)
    for part in potential.parts if isinstance(potential, Mixed) else [potential]:
        assert isinstance(part, CNN | BLSTM)
        assert torch.equal(part.embedding[words_U], vector_UE)
    before = learner.trf.phi(text.long())
    learner.step(0, generator(1, "step"))
    assert not torch.equal(learner.trf.phi(text.long()), before)

    (tmp_path / "run").mkdir()
    with RunDirectory(tmp_path / "run", recipe, data):
        save_model(tmp_path / "run/model.safetensors", learner.model, step=1)
    with RunDirectory(tmp_path / "run", recipe, data):  # the same recipe is accepted again
        pass
    text = ["the cat ran", "a bird"]
    assert torch.equal(load_model(tmp_path / "run").log_prob(text), learner.trf.log_prob(text))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_model_with_numbers_that_are_not_finite_is_refused(recipe, tmp_path, value):
    data, run = recipe.data.read(), tmp_path / "run"
    run.mkdir()
    write_classes((torch.arange(len(data.vocab)) > 0).long(), data.vocab, tmp_path / "classes.txt")
    learner = recipe.build(data, fresh=True)
    with torch.no_grad():
        learner.trf.potential.get_parameter("readout")[0] = value
    with RunDirectory(run, recipe, data):
        save_model(run / "model.safetensors", learner.model)
    with pytest.raises(InputError, match="readout holds numbers that are not finite"):
        load_model(run)


@pytest.mark.parametrize(("name", "what"), [("log_prob.2", "greatest log p is 50"), ("log_prob.1", "sum to 0.6")])
@pytest.mark.filterwarnings("ignore:the .-grams of this text")
def test_an_ngram_model_whose_probabilities_are_none_is_refused(name, what):
    vocab = tiny_vocab(4)
    tensors = kneser_ney(random_batch(4, [3, 4, 5] * 5), vocab, KneserNeyConfig(order=2)).to_tensors()
    assert NGram.from_tensors(vocab, tensors).tables.n == 2
    changed = tensors[name].clone()
    if name == "log_prob.2":
        changed[1] = 50
    else:
        changed += torch.tensor(0.6).log()
    with pytest.raises(InputError, match=what):
        NGram.from_tensors(vocab, {**tensors, name: changed})


def test_snapshots_that_are_replaced_while_they_are_read_are_looked_for_again(recipe, tmp_path, monkeypatch):
    """A run names new snapshots, then removes the old ones: between its two acts and the two of a reader."""
    data, run = recipe.data.read(), tmp_path / "run"
    (run / "snapshots").mkdir(parents=True)
    write_classes((torch.arange(len(data.vocab)) > 0).long(), data.vocab, tmp_path / "classes.txt")
    learner = recipe.build(data, fresh=True)

    def snapshot(number: int) -> None:
        save_model(run / f"snapshots/{number}.safetensors", learner.model)
        save_model(run / "model.safetensors", learner.model, snapshots=[f"{number}.safetensors"])

    with RunDirectory(run, recipe, data):
        snapshot(1)
    original = store.load_note

    def note_then_replaced(file):
        note = original(file)
        if note["snapshots"] == ["1.safetensors"]:
            snapshot(2)
            (run / "snapshots/1.safetensors").unlink()
        return note

    monkeypatch.setattr(store, "load_note", note_then_replaced)
    assert len(load_model(run).vocab) == len(data.vocab)
    (run / "snapshots/2.safetensors").unlink()
    with pytest.raises(InputError, match="there is no such file"):
        load_model(run)
    os.mkfifo(run / "snapshots/2.safetensors")
    with pytest.raises(InputError, match="is not a regular file"):
        load_model(run)
    save_model(run / "model.safetensors", learner.model, snapshots=["../model.safetensors"])
    with pytest.raises(InputError, match="must be names of files"):
        load_model(run)


def test_a_pipe_among_the_files_of_a_run_is_not_waited_for(tmp_path):
    run = tmp_path / "run"
    assert trf("train", tiny_recipe(tmp_path), "--out", run, "--quiet", "--set", "run.epochs=1").returncode == 0
    score, report = ("score", run, tmp_path / "text.txt"), ("report", run, "--out", tmp_path / "page.html")
    for name, command in (
        ("config.json", score),
        ("vocab.txt", score),
        ("model.safetensors", score),
        ("metrics.jsonl", report),
    ):
        (run / name).rename(tmp_path / name)
        os.mkfifo(run / name)
        done = trf(*command)
        assert (done.returncode, done.stderr) == (2, f"trf: {run}/{name}: is not a regular file\n")
        (tmp_path / name).replace(run / name)


def test_a_name_that_no_file_can_have_is_one_message():
    with pytest.raises(InputError, match=r"damaged or not ours: .*File name too long"):
        store.read_config(Path("x" * 5000))
