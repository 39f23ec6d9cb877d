"""Recipes by name, where their paths lead, and what their keys mean."""

import dataclasses
import os
import runpy
import tomllib
from pathlib import Path

import pytest

from trflm.errors import InputError
from trflm.experiment import keys, shipped
from trflm.experiment.paths import paths_of
from trflm.experiment.recipe import RECIPES, parse_recipe, read_recipe

ROOT = Path(__file__).parents[2]


def test_every_recipe_of_the_tree_has_a_name_and_a_sentence():
    files = {path for path in (ROOT / "recipes").rglob("*.toml") if path.name != shipped.TABLES}
    assert {shipped.find_recipe(name) for name in shipped.names()} == files
    assert all(shipped.about(file) for file in files)


@pytest.mark.parametrize("name", ["ptb/kn5", "ptb/kn5.toml", "recipes/ptb/kn5.toml"])
def test_a_shipped_recipe_is_found_from_anywhere(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert shipped.find_recipe(name) == ROOT / "recipes/ptb/kn5.toml"
    assert shipped.find_directory("ptb") == shipped.find_directory("recipes/ptb") == ROOT / "recipes/ptb"


def test_a_file_of_the_user_goes_before_a_shipped_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ptb").mkdir()
    (tmp_path / "ptb" / "kn5.toml").write_text('[data]\ntrain = "mine.txt"\n')
    assert shipped.find_recipe("ptb/kn5.toml") == Path("ptb/kn5.toml")
    assert shipped.find_directory("ptb") == Path("ptb")
    assert shipped.find_recipe("ptb/kn5") == ROOT / "recipes/ptb/kn5.toml"


@pytest.mark.parametrize(
    ("wrong", "remedy"), [("ptb/kn6", "did you mean ptb/kn5"), ("tyni", "did you mean tiny"), ("zzz", "trf recipes list")]
)
def test_a_name_that_is_none_is_answered_with_the_nearest(wrong, remedy):
    with pytest.raises(InputError, match=f"{wrong}: there is no such recipe, .*{remedy}"):
        read_recipe(wrong)


RECIPE = '[data]\ntrain = "text/t.txt"\n[model]\nkind = "cnn"\n[learner]\nkind = "distil"\nteachers = ["runs/a", "runs/b"]\n'


def test_paths_lead_from_the_recipe_then_from_the_working_directory(tmp_path, monkeypatch):
    project, work = tmp_path / "project", tmp_path / "work"
    for directory in (project / "text", work / "text", work / "runs/b", project / "runs/a"):
        directory.mkdir(parents=True)
    (project / "r.toml").write_text(RECIPE)
    monkeypatch.chdir(work)
    (work / "text/t.txt").write_text("here\n")
    assert read_recipe("../project/r.toml").data.train == "text/t.txt"
    (project / "text/t.txt").write_text("beside\n")
    recipe = read_recipe("../project/r.toml", ["data.valid=text/v.txt"])
    assert paths_of(recipe) == ["../project/text/t.txt", "text/v.txt", "../project/runs/a", "runs/b"]
    typed = read_recipe("../project/r.toml", ["data.train=text/t.txt", 'learner.teachers=["runs/a"]'])
    assert paths_of(typed) == ["text/t.txt", "runs/a"]


def test_the_recipes_of_ptb_find_their_text_where_one_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_recipe("ptb/kn5").data.train == "data/ptb/train.txt.gz"
    with pytest.raises(
        InputError, match=r"data\.train = 'data/ptb/train.txt.gz': there is no such file.* --set data\.train=FILE"
    ):
        read_recipe("ptb/kn5").data.read()
    train = read_recipe("tiny").data.train
    assert isinstance(train, str)
    assert os.path.samefile(train, ROOT / "recipes/tiny/train.txt")


def test_a_path_with_a_zero_byte_is_refused(tmp_path):
    (tmp_path / "r.toml").write_text('[data]\ntrain = "a\\u0000b"\n')
    with pytest.raises(InputError, match="zero byte"):
        read_recipe(tmp_path / "r.toml")


def all_sections() -> list[type]:
    kinds = [kind for recipe in RECIPES for _, some in keys.sections_of(recipe) for kind in some]
    return list(dict.fromkeys(kinds))


@pytest.mark.parametrize("section", all_sections(), ids=lambda section: section.__name__)
def test_every_key_says_what_it_means(section):
    assert keys.about(section)
    assert [key.name for key in keys.keys_of(section) if not key.meaning] == []


@pytest.mark.parametrize("name", shipped.names())
def test_an_explained_recipe_is_the_recipe(name):
    recipe = read_recipe(name)
    assert parse_recipe(tomllib.loads(keys.explained(recipe)), "explained") == recipe


def test_an_explanation_names_meaning_and_default():
    text = keys.explained(read_recipe("tiny"))
    assert "batch = 32  # whole number from 1 to 1000000; data sentences a step (default 100)\n" in text
    assert '  kind = "nce"  # others are augsa, dnce,' in text
    assert "dropout = 0.0  # number from 0 to 1; on the pooled output of the bank\n" in text


def test_a_key_of_an_inherited_section_keeps_its_meaning_where_only_the_default_is_new():
    @dataclasses.dataclass(frozen=True)
    class Base:
        rate: float = 1.0  # how fast

    @dataclasses.dataclass(frozen=True)
    class More(Base):
        rate: float = 2.0

    assert keys.keys_of(More) == [keys.Key("rate", "number", 2.0, "how fast")]


def test_the_pages_that_are_made_from_the_code_are_up_to_date():
    script = runpy.run_path(str(ROOT / "docs" / "write_pages.py"))
    for name, page in script["PAGES"].items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == page(), f"docs/{name} is out of date; run make docs"
