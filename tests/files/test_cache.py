import os

import pytest
import torch
from harness import random_batch

from trflm.files import cache
from trflm.files.cache import cached
from trflm.text.word2vec import word2vec

TEXT = random_batch(9, [3, 5, 2, 7] * 10)
OTHER = TEXT.select(torch.arange(39))
KEY = (TEXT.ids_N, TEXT.lengths_B)


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "trflm"


class Counting:
    """A computation that knows how often it ran."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> dict[str, torch.Tensor]:
        self.times += 1
        return {"x": torch.arange(1000.0)}


def test_computed_once_for_each_text_and_setting(directory):
    compute = Counting()
    for _ in range(2):
        assert torch.equal(cached("a", KEY, compute)["x"], torch.arange(1000.0))
    assert compute.times == 1
    cached("b", KEY, compute)
    cached("a", (OTHER.ids_N, OTHER.lengths_B), compute)
    assert compute.times == 3
    assert len(list(directory.iterdir())) == 3  # and nothing half written beside them


@pytest.mark.parametrize("damage", [lambda content: content[:50], lambda content: b"", lambda content: content[:-1]])
def test_a_damaged_file_is_computed_anew_and_mended(directory, damage):
    compute = Counting()
    cached("a", KEY, compute)
    (file,) = directory.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert torch.equal(cached("a", KEY, compute)["x"], torch.arange(1000.0))
    assert compute.times == 2
    assert file.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_none(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert len(cached("a", KEY, Counting())["x"]) == 1000


def test_a_failed_write_leaves_nothing(directory, monkeypatch):
    monkeypatch.setattr(os, "replace", lambda *paths: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert len(cached("a", KEY, Counting())["x"]) == 1000
    assert list(directory.iterdir()) == []


def test_without_the_variable_it_is_in_the_home_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.cache_directory() == tmp_path / ".cache" / "trflm"


def test_word2vec_is_trained_once(directory, monkeypatch):
    pytest.importorskip("gensim")
    words, vectors = word2vec(TEXT, 9, size=4, seed=1)
    assert vectors.shape == (9, 4)
    monkeypatch.setattr("trflm.text.word2vec.train_word2vec", lambda *arguments: pytest.fail("trained again"))
    again = word2vec(TEXT, 9, size=4, seed=1)
    assert torch.equal(again[0], words)
    assert torch.equal(again[1], vectors)
