"""The examples of CONTRIBUTING.md do what it says: each becomes a file, is named in its tuple, and works like the others."""

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from commands import TINY_TEXT
from harness import check_expected_gradient, check_potential, random_pi, rng

from trflm import learning, potentials
from trflm.errors import InputError
from trflm.evaluation import formats
from trflm.experiment.recipe import FieldRecipe, parse_recipe
from trflm.kinds import Start
from trflm.learning.loop import training
from trflm.learning.nce import NCE
from trflm.lms import noise
from trflm.lms.unigram import Unigram
from trflm.sampling.exact import all_sentences

EXAMPLES = re.compile(r"```python\n(.*?)```", re.DOTALL)
CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"
BLSTM = {"kind": "blstm", "embedding": 4, "units": 4}


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """The example that defines a name, as a module."""

    def load(name: str) -> ModuleType:
        blocks = EXAMPLES.findall(CONTRIBUTING.read_text(encoding="utf-8"))
        (code,) = [block for block in blocks if re.search(rf"^(class|def) {name}\b", block, re.MULTILINE)]
        file = tmp_path / f"example_{name}.py"
        file.write_text(code, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, file.stem, module)  # where dataclasses look up their types
        spec.loader.exec_module(module)
        return module

    return load


def recipe_of(tmp_path: Path, **sections: dict[str, object]) -> FieldRecipe:
    (tmp_path / "text.txt").write_text(TINY_TEXT, encoding="utf-8")
    recipe = parse_recipe({"data": {"train": str(tmp_path / "text.txt")}, **sections}, "recipe")
    assert isinstance(recipe, FieldRecipe)
    return recipe


def test_the_potential_is_one(example, tmp_path, monkeypatch):
    bag = example("Bag")
    monkeypatch.setattr(potentials, "POTENTIALS", (*potentials.POTENTIALS, bag.BagConfig))
    recipe = recipe_of(tmp_path, model={"kind": "bag", "init": 0.3})
    vocab = recipe.data.read().vocab
    potential = recipe.model.build(Start(vocab, rng=rng(1)))
    assert type(potential) is bag.Bag
    (weight_V,) = potential.parameters()
    assert 0.1 < float(weight_V.detach().abs().max()) <= 0.3
    check_potential(bag.Bag(bag.BagConfig(), 5, rng(1)).double(), 5, 6)
    check_expected_gradient(bag.Bag(bag.BagConfig(), 4, rng(1)).double(), 4, random_pi(3))


def test_the_learner_learns_and_resumes_bit_for_bit(example, tmp_path, monkeypatch):
    ranking = example("Ranking")
    monkeypatch.setattr(learning, "FIELD_LEARNERS", (*learning.FIELD_LEARNERS, ranking.RankingConfig))
    recipe = recipe_of(tmp_path, model=BLSTM, learner={"kind": "ranking", "batch": 6, "lr": 0.05})
    data = recipe.data.read()
    text = data.train.sentences.whole()

    whole = list(training(recipe.build(data, fresh=True), text, epochs=10, seed=1))
    assert whole[-1].dev is not None
    assert whole[-1].metrics["loss"] < whole[0].metrics["loss"]

    begun, after = recipe.build(data, fresh=True), 3
    for moment, expected in zip(training(begun, text, epochs=10, seed=1), whole, strict=False):
        assert moment == expected
        if moment.step == after:
            break
    resumed = recipe.build(data, fresh=False)
    resumed.load_state_dict(begun.state_dict())
    assert list(training(resumed, text, epochs=10, seed=1, steps_done=after)) == whole[after:]


def test_the_noise_sums_to_one_and_is_flatter_than_the_unigram(example, tmp_path, monkeypatch):
    flat = example("FlatNoise")
    monkeypatch.setattr(noise, "NOISES", (*noise.NOISES, flat.FlatNoise))
    recipe = recipe_of(tmp_path, model=BLSTM, noise={"kind": "flat", "power": 0.5}, learner={"kind": "nce", "batch": 6})
    data = recipe.data.read()
    learner = recipe.build(data, fresh=True)
    assert isinstance(learner, NCE)
    q = learner.noise
    assert isinstance(q, Unigram)
    everything = all_sentences(len(data.vocab), learner.trf.max_length)
    known_B = q.pi[everything.lengths_B] > 0  # at other lengths a floor of 1e-5 is shared by all sentences
    assert float(q.log_prob(everything)[known_B].exp().sum()) == pytest.approx(1, abs=1e-12)
    assert q.log_word_V.max() < learner.replacements.unigram.log_word_V.max()
    assert q.draw(5, rng(1)).lengths_B.max() <= learner.trf.max_length


def test_the_format_is_read_strictly_and_written(example, tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "FORMATS", (example("read_tsv").TSV, *formats.FORMATS))
    file = tmp_path / "lists.tsv"
    file.write_text("a\t-1.5\tit rose\na\t-2\tit rows\nb\t-3\tso did we\n", encoding="utf-8")
    first, second = lists = list(formats.read_lists(file, {}))
    assert (first.utterance, list(first.texts)) == ("a", ["it rose", "it rows"])
    assert first.scores["acoustic"].tolist() == [-1.5, -2.0]
    assert (second.utterance, list(second.texts)) == ("b", ["so did we"])
    formats.format_named("tsv").write(lists, tmp_path / "again.tsv")
    assert [(nbest.utterance, list(nbest.texts)) for nbest in formats.read_lists(tmp_path / "again.tsv", {})] == [
        ("a", ["it rose", "it rows"]),
        ("b", ["so did we"]),
    ]
    file.write_text("a\tnan\tit rose\n", encoding="utf-8")
    with pytest.raises(InputError, match="finite"):
        list(formats.read_lists(file, {}))
    with pytest.raises(InputError, match="give one of espnet, espnet2, hypr, jsonl, kaldi, mlm, nemo, parquet, srilm, tsv"):
        formats.format_named("csv")
