"""weights.json comes back the same, bad ones are refused, and the tuning set is recognised by content."""

import contextlib
import gzip
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trflm.errors import InputError
from trflm.evaluation.figures import Figures
from trflm.evaluation.second_pass.files import ListFiles
from trflm.evaluation.significance import Interval
from trflm.evaluation.transcripts import read_transcripts
from trflm.evaluation.weights import (
    CrossValidation,
    FileContent,
    TunedWeights,
    Weights,
    content_hash,
    for_models,
    load_weights,
)
from trflm.text.mapping import Table

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def example(tmp_path: Path) -> TunedWeights:
    (tmp_path / "nbest.txt").write_text("a-1 x\n")
    tuned_on = {"nbest": FileContent("nbest.txt", content_hash(tmp_path / "nbest.txt"))}
    weights = Weights({"kn5": 0.25, "trf": 0.75}, 6.5, -1.25, 11.0)
    dev = Figures(0.2, 2, 10, 1, 1, 0, 2, 0.5, Interval(0.1, 0.3))
    return TunedWeights(weights, "ptb", dev, tuned_on, [(0.0, 0.3), (1.0, 0.2)], CrossValidation(3, dev))


def test_round_trip(tmp_path: Path) -> None:
    tuned = example(tmp_path)
    tuned.save(tmp_path / "weights.json")
    assert load_weights(tmp_path / "weights.json") == tuned
    replace(tuned, cross_validation=None).save(tmp_path / "weights.json")
    assert load_weights(tmp_path / "weights.json").cross_validation is None


def test_weights_follow_their_models(tmp_path: Path) -> None:
    weights = for_models(example(tmp_path), {"./trf": None, "kn5": None}, "w.json")
    assert list(weights.lms.items()) == [("./trf", 0.75), ("kn5", 0.25)]
    assert weights.factors == (6.5 * 0.75, 6.5 * 0.25)
    assert Weights.from_factors(["./trf", "kn5"], weights.factors, -1.25, 11.0) == weights
    with pytest.raises(InputError, match="tuned for kn5, trf, not for kn5"):
        for_models(example(tmp_path), {"kn5": None}, "w.json")


def test_the_tuning_set_is_known_by_content(tmp_path: Path) -> None:
    tuned = example(tmp_path)
    (tmp_path / "other.txt").write_text("a-1 y\n")
    (tmp_path / "copy.txt.gz").write_bytes(gzip.compress(b"a-1 x\n"))
    assert tuned.same_content(ListFiles(tmp_path / "other.txt").contents) == []
    assert tuned.same_content(ListFiles(tmp_path / "copy.txt.gz").contents) == [str(tmp_path / "copy.txt.gz")]
    scores = ListFiles(tmp_path / "other.txt", {"acoustic": tmp_path / "nbest.txt"}).contents  # only lists and references count
    assert tuned.same_content(scores) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "x"}, "is not a weights file"),
        ({"weights": {}}, "the field 'lms' is missing or wrong"),
        ({"weights": {"lms": {"a": 0.5}, "scale": 1, "word_penalty": 0, "oov_penalty": 0}}, "sum to 0.5, not 1"),
        ({"weights": {"lms": {"a": 1}, "scale": "1", "word_penalty": 0, "oov_penalty": 0}}, "not a finite number"),
        ({"tuned_on": []}, "is missing or wrong"),
    ],
)
def test_faults(tmp_path: Path, change: dict, message: str) -> None:
    example(tmp_path).save(tmp_path / "weights.json")
    record = json.loads((tmp_path / "weights.json").read_text())
    (tmp_path / "weights.json").write_text(json.dumps({**record, **change}))
    with pytest.raises(InputError, match=message):
        load_weights(tmp_path / "weights.json")
    (tmp_path / "weights.json").write_bytes(b"\xff{")
    with pytest.raises(InputError, match="is not a weights file"):
        load_weights(tmp_path / "weights.json")


@given(
    field=st.sampled_from(["weights", "tuned_on", "scale_curve", "mapping", "dev", "cross_validation", "lms", "scale"]),
    value=JSON,
)
@settings(max_examples=200)
def test_a_spoilt_field_gives_an_input_error_or_none(field: str, value: object) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "weights.json"
        example(Path(name)).save(path)
        record = json.loads(path.read_text())
        (record["weights"] if field in {"lms", "scale"} else record)[field] = value
        path.write_text(json.dumps(record))
        with contextlib.suppress(InputError):
            load_weights(path)


@given(content=st.binary(max_size=40) | st.text("ab \t\n-1", max_size=40).map(str.encode))
@settings(max_examples=200)
def test_malformed_transcripts_tables_and_weights_give_input_errors_only(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "file"
        path.write_bytes(content)
        for reader in (read_transcripts, Table.from_file, load_weights):
            with contextlib.suppress(InputError):
                reader(path)
