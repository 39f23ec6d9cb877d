"""weights.json comes back the same, bad ones are refused, and the tuning set is recognised by content."""

import gzip
import json
from pathlib import Path

import pytest

from trflm.errors import InputError
from trflm.evaluation.weights import TunedWeights, Weights, content_hash, for_models, load_weights, same_files


def example(tmp_path: Path) -> TunedWeights:
    (tmp_path / "nbest.txt").write_text("a-1 x\n")
    tuned_on = {"nbest": {"path": "nbest.txt", "sha256": content_hash(tmp_path / "nbest.txt")}}
    weights = Weights({"kn5": 0.25, "trf": 0.75}, 6.5, -1.25, 11.0)
    return TunedWeights(weights, "ptb", {"wer": 0.2}, tuned_on, [(0.0, 0.3), (1.0, 0.2)], {})


def test_round_trip(tmp_path: Path) -> None:
    tuned = example(tmp_path)
    tuned.save(tmp_path / "weights.json")
    assert load_weights(tmp_path / "weights.json") == tuned


def test_weights_follow_their_models(tmp_path: Path) -> None:
    weights = for_models(example(tmp_path), ["trf", "kn5"], "w.json")
    assert list(weights.lms.items()) == [("trf", 0.75), ("kn5", 0.25)]
    assert weights.factors == (6.5 * 0.75, 6.5 * 0.25)
    assert Weights.from_factors(["trf", "kn5"], weights.factors, -1.25, 11.0) == weights
    with pytest.raises(InputError, match="tuned for kn5, trf, not for kn5; give the same --lm"):
        for_models(example(tmp_path), ["kn5"], "w.json")


def test_the_tuning_set_is_known_by_content(tmp_path: Path) -> None:
    tuned = example(tmp_path)
    (tmp_path / "other.txt").write_text("a-1 y\n")
    (tmp_path / "copy.txt.gz").write_bytes(gzip.compress(b"a-1 x\n"))
    assert same_files(tuned, {"nbest": tmp_path / "other.txt"}) == []
    assert same_files(tuned, {"nbest": tmp_path / "copy.txt.gz"}) == [str(tmp_path / "copy.txt.gz")]


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
