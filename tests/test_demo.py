"""The demo's data, small: made once, gone on with, never mixed."""

from pathlib import Path

import pytest

from trflm.errors import InputError
from trflm.simulate import demo
from trflm.simulate.demo import DemoConfig, prepare

SENTENCES = [f"the {noun} {verb} the {other}".split() for noun in ("cat", "dog", "king") for verb in ("saw", "was", "had")
             for other in ("house", "king", "river", "boat", "cat")]  # fmt: skip
CONFIG = DemoConfig(seed=3, held_out=10, dev=3, test=4, hypotheses=5, steering=1)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    pytest.importorskip("pocketsphinx")
    monkeypatch.setattr(demo, "wikipedia_file", lambda: tmp_path)
    monkeypatch.setattr(demo, "wikipedia_sentences", lambda path: iter(SENTENCES))
    return tmp_path / "data"


def test_texts_and_lists(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    prepare(small, CONFIG, 1, said.append)
    texts = {name: (small / f"{name}.txt").read_text().splitlines() for name in ("train", "valid", "test")}
    assert [len(texts[name]) for name in ("train", "valid", "test")] == [25, 10, 10]
    assert sorted(line for lines in texts.values() for line in lines) == sorted(" ".join(words) for words in SENTENCES)
    references = [line.split(" ", 1)[1] for line in (small / "lists/test/ref.txt").read_text().splitlines()]
    assert references == texts["test"][:4]
    assert "test: 4 of 4 utterances said, corrupted and searched for" in said
    # What is missing is made again, the same; what is there stays.
    before = (small / "lists/dev/nbest.txt").read_bytes()
    for file in (small / "lists/dev").iterdir():
        file.unlink()
    (small / "lists/dev").rmdir()
    monkeypatch.setattr(demo, "wikipedia_sentences", lambda path: iter(()))
    prepare(small, CONFIG, 1, said.append)
    assert (small / "lists/dev/nbest.txt").read_bytes() == before
    with pytest.raises(InputError, match="was made with other settings; say --fresh"):
        prepare(small, DemoConfig(seed=4), 1, said.append)


def test_the_demo_has_its_recipes() -> None:
    assert {path.stem for path in demo.recipes().glob("*.toml")} >= {"tables", "kn5", "lstm", "trf"}
