"""Every learner that a recipe can name goes through one harness; a new one needs an entry in `tiny_learners`, at most."""

import pytest
from harness import check_learner, same_state
from tiny_learners import KINDS, recipe_of

from trflm.errors import InputError
from trflm.seeds import generator
from trflm.text import PackedText


@pytest.mark.filterwarnings("ignore:the .-grams of this text")
@pytest.mark.parametrize("kind", KINDS)
def test_a_learner_is_a_function_of_seed_and_step_and_resumes(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    recipe = recipe_of(kind, tmp_path)
    data = recipe.data.read()
    assert data.dev is not None
    check_learner(lambda: recipe.build(data, fresh=True), data.dev.sentences.long(), tmp_path)


@pytest.mark.filterwarnings("ignore:the .-grams of this text")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("nce", "distil", "word-choice")])
def test_a_small_text_on_disk_teaches_the_same_to_the_bit_as_in_memory(kind, tmp_path, monkeypatch):
    """But for learners of n-gram models, whose numbers may be rounded in another way, and of a sample of the text."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    states = []
    for stream_above in (0, 500):
        recipe = recipe_of(kind, tmp_path, stream_above=stream_above)
        data = recipe.data.read()
        assert isinstance(data.train.sentences, PackedText) == (stream_above == 0)
        learner = recipe.build(data, fresh=True)
        for number in range(2):
            learner.step(number, generator(7, "step", number))
        states.append(learner.state_dict())
    assert same_state(*states)


@pytest.mark.parametrize("kind", ["nce", "distil"])
@pytest.mark.filterwarnings("ignore:the .-grams of this text")
def test_other_learners_learn_from_a_text_on_disk_too(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    losses = []
    for stream_above in (0, 500):
        recipe = recipe_of(
            kind, tmp_path, stream_above=stream_above, **({"batch": 36, "copies": 1000} if kind == "distil" else {})
        )
        losses.append(recipe.build(recipe.data.read(), fresh=True).step(0, generator(7, "step", 0))["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=0.02 if kind == "distil" else 1e-6)  # copies: of 36,000 others


def test_classes_need_a_text_in_memory_and_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    recipe = recipe_of("word-choice", tmp_path, stream_above=0)
    with pytest.raises(InputError, match=r"classes of words are made from a text in memory.*classes_file"):
        recipe.build(recipe.data.read(), fresh=True)
