"""Every number that a user may give has a range, which is checked before anything is read, built or written."""

import dataclasses
import inspect
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from commands import TINY_NGRAM, TINY_TEXT, tiny_recipe, trf

import trflm
from trflm.cli import COMMANDS
from trflm.cli.bounds import bounded
from trflm.cli.help import constructors
from trflm.errors import InputError
from trflm.evaluation.effort import Effort
from trflm.evaluation.significance import bootstrap_interval
from trflm.experiment.keys import keys_of, sections_of
from trflm.experiment.recipe import RECIPES
from trflm.experiment.toml import parse_table
from trflm.field.snapshots import FieldModel
from trflm.lms.lstm.model import LSTM
from trflm.lms.ngram import NGram
from trflm.ranges import Count, Positive, Range, Share, Weight, check, range_of
from trflm.ranges import bounded as bounded_call
from trflm.sampling.smc import SMCConfig

NOBODY: Any = None


def plain_types(hint: Any) -> set[Any]:
    """The types inside a hint, of whatever depth."""
    if get_origin(hint) is Annotated:
        return plain_types(get_args(hint)[0])
    return {hint}.union(*(plain_types(part) for part in get_args(hint)))


def functions() -> list[Any]:
    """All commands and their subcommands."""
    found = []
    for command in COMMANDS.values():
        hints = get_type_hints(command, include_extras=True)
        inner = [made for hint in hints.values() for made in constructors(hint).values()]
        found += inner or [command]
    return found


def name_of(owner: Any) -> str:
    return owner.__name__


SECTIONS = {kind for recipe in RECIPES for _, kinds in sections_of(recipe) for kind in kinds}


@pytest.mark.parametrize("owner", [*functions(), *sorted(SECTIONS, key=name_of)], ids=name_of)
def test_every_number_has_a_range(owner):
    for name, hint in get_type_hints(owner, include_extras=True).items():
        if plain_types(hint) & {int, float}:
            assert range_of(hint) is not None, f"{owner.__name__}: {name} is a number without a range (see trflm/ranges.py)"


@pytest.mark.parametrize("kind", sorted(SECTIONS, key=name_of), ids=name_of)
def test_a_key_out_of_its_range_is_refused(kind):
    hints = get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        allowed = range_of(hints[field.name])
        if allowed is None:
            continue
        listed, whole = get_origin(hints[field.name]) is tuple, int in plain_types(hints[field.name])
        for value in [allowed.low - 1, allowed.high + 1, *([10**4000] if whole else [math.nan, math.inf, -math.inf])]:
            number = int(value) if whole else float(value)
            with pytest.raises(InputError, match=rf"recipe: s\.{field.name}(\[0\])? = .*: must be (from|above) "):
                parse_table(kind, {field.name: [number] if listed else number}, "recipe", "s")


def test_ranges():
    for hint in (Share, Positive, Weight):
        with pytest.raises(InputError, match=r"x nan: must be (from|above) "):
            check(math.nan, range_of(hint), "x ")  # pyright: ignore[reportArgumentType]
    assert 0.0 not in Range(0, 1, above=True)
    assert 0.0 in Range(0, 1)
    assert range_of(tuple[Count, ...]) == range_of(Count) == range_of(Annotated[Count | None, "x"]) == Range(1, 10**6)
    assert str(Range(0, 10, above=True)) == "above 0, at most 10"
    check((1, 2), Range(1, 2), "")
    with pytest.raises(InputError, match=r"--n a number of 4001 digits: must be from 1 to 2$"):
        check((1, 10**4000), Range(1, 2), "--n ")


def test_help_and_signature_of_a_bounded_command_stay():
    for function in functions():
        assert inspect.signature(bounded(function)) == inspect.signature(function)
        assert bounded(function).__doc__ == function.__doc__


class Said:
    def __init__(self, words: Mapping[str, Weight], n: Count = 1) -> None:
        self.words, self.n = words, n

    __init__ = bounded_call(__init__)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Said({"a": 1.0}, 0), "n = 0: must be from 1 to "),
        (lambda: Said({"a": 1.0, "b": math.nan}), "words = nan: must be from "),
        (lambda: trflm.Rescorer({"m": math.inf}), "models = inf: must be from "),
        (lambda: trflm.Rescorer({"m": 1.0}, word_penalty=math.nan), "word_penalty = nan: must be from "),
        (lambda: trflm.tune(NOBODY, {}, [], oov_penalty=math.nan), "oov_penalty = nan: must be from "),
        (lambda: trflm.rescore(NOBODY, {}, word_penalty=1e300), "word_penalty = 1e+300: must be from "),
        (lambda: Effort(minutes=math.nan), "minutes = nan: must be above 0"),
        (lambda: Effort(seed=-1), "seed = -1: must be from 0 to "),
        (lambda: SMCConfig(size=10**12), "size = 1000000000000: must be from 1 to "),
        (lambda: bootstrap_interval(NOBODY, resamples=10**10), "resamples = 10000000000: must be from 1 to "),
        (lambda: NGram.sample(NOBODY, -1), "n = -1: must be from 0 to "),
        (lambda: LSTM.sample(NOBODY, 1, seed=-1), "seed = -1: must be from 0 to "),
        (lambda: FieldModel.sample(NOBODY, 1, length=10**20), "length = 100000000000000000000: must be from 1 to "),
    ],
)  # fmt: skip
def test_an_argument_of_a_function_out_of_its_range_is_refused(call, message):
    """Before anything is looked at: there are no models here, and nobody to speak."""
    with pytest.raises(InputError, match="^" + re.escape(message)):
        call()


@pytest.fixture
def files(tmp_path):
    (tmp_path / "t.txt").write_text(TINY_TEXT)
    (tmp_path / "hyp").write_text("u1 the cat\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("rescore", "--nbest", "x", "--lm", "m", "--scale", "inf", "--out", "o"), "--scale inf: must be from 0 to 1000000000"),
        (("rescore", "--nbest", "x", "--lm", "m", "--scale", "nan", "--out", "o"), "--scale nan: must be from 0 to 1000000000"),
        (("rescore", "--nbest", "x", "--lm", "m", "--scale", "1", "--oov-penalty", "nan", "--out", "o"), "--oov-penalty nan: "),
        (("tune", "--nbest", "x", "--lm", "m", "--oov-penalty", "-inf", "--out", "o"), "--oov-penalty -inf: must be "),
        (("wer", "hyp", "hyp", "--seed", "-1"), "--seed -1: must be from 0 to 9007199254740992"),
        (("wer", "hyp", "hyp", "--resamples", "10000000000"), "--resamples 10000000000: must be from 1 to 1000000"),
        (("nbest", "oracle", "--nbest", "x", "--ref", "r", "--depth", "1", "100000000000000000000"), "--depth 1000000000"),
        (("score", "m", "t.txt", "--threads", str(2**40)), "--threads 1099511627776: must be from 0 to 1024"),
        (("sample", "m", "-n", "0"), "--n 0: must be from 1 to 1000000"),
        (("nbest", "simulate", "--text", "t.txt", "--words", "t.txt", "--out", "o", "--jobs", "-1"), "--jobs -1: must be "),
        (("perplexity", "m", "t.txt", "--minutes", "nan"), "--minutes nan: must be from 0 to 1000000000"),
    ],
)  # fmt: skip
def test_an_argument_out_of_its_range_is_one_message(files, words, message):
    done = trf(*words, cwd=files)
    assert done.returncode == 2
    assert done.stderr.startswith(f"trf: {message}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("value", ["order=1000000000", "order=0"])
def test_a_recipe_out_of_range_is_one_message(files, value):
    done = trf("train", tiny_recipe(files, TINY_NGRAM), "--out", files / "run", "--set", f"model.{value}")
    assert done.returncode == 2
    assert "model.order = " in done.stderr
    assert done.stderr.endswith(": must be from 1 to 20\n")
    assert not (files / "run").exists()


def test_explain_tells_ranges(files):
    done = trf("train", tiny_recipe(files, TINY_NGRAM), "--explain")
    assert "order = 3  # whole number from 1 to 20; words of the longest n-grams" in done.stdout
    assert any("from 1 to 20" in key.type for kind in SECTIONS for key in keys_of(kind))
