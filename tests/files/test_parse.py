"""JSON and TOML that are not what they should be are a ValueError, whatever is wrong."""

import pytest

from trflm.errors import InputError
from trflm.experiment.recipe import parse_recipe
from trflm.files.parse import parse_json, parse_toml
from trflm.files.records import from_record


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 50_000, "{", "9" * 5000, "\0"])
def test_json(text):
    with pytest.raises(ValueError):
        parse_json(text)


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a =", "a = " + "9" * 5000])
def test_toml(text):
    with pytest.raises(ValueError):
        parse_toml(text)


def test_numbers_beyond_every_use():
    with pytest.raises(ValueError, match="beyond all floats"):
        from_record(float, 10**400)
    data = {"train": "text.txt"}
    with pytest.raises(InputError, match=r"learner\.lr = a number of 401 digits: must be"):
        parse_recipe({"data": data, "learner": {"lr": 10**400}}, "recipe")
    with pytest.raises(InputError, match=r"learner\.lr = nan"):
        parse_recipe({"data": data, "learner": {"lr": float("nan")}}, "recipe")
