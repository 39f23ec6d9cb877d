"""The demo's data, small: made once, gone on with, never mixed."""

from pathlib import Path

import pytest
from commands import trf

pytest.importorskip("numba")

from trflm.errors import InputError
from trflm.simulate import demo
from trflm.simulate.demo import DemoConfig, begin, prepare

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


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_directory_that_no_demo_began_in_is_refused_and_stays(tmp_path: Path) -> None:
    (tmp_path / "project/data").mkdir(parents=True)
    (tmp_path / "project/data/settings.json").write_text("{}")
    (tmp_path / "project/results.json").write_text("of years")
    before = everything(tmp_path)
    for fresh in ("", "--fresh"):
        refused = trf("demo", "--out", tmp_path / "project", *fresh.split())
        assert (refused.returncode, "is not empty, and no demo began there" in refused.stderr) == (2, True)
        assert everything(tmp_path) == before
    (tmp_path / "project/demo.json").symlink_to(tmp_path / "mark")  # a marker that we did not write
    (tmp_path / "mark").write_bytes(demo.MARK)
    with pytest.raises(InputError, match="no demo began there"):
        begin(tmp_path / "project", True, print)


def test_fresh_removes_what_a_demo_made_and_nothing_else(small: Path, tmp_path: Path) -> None:
    out, said = small.parent / "demo", []
    begin(out, False, said.append)
    prepare(out / "data", CONFIG, 1, said.append)
    for name in (
        "scores/lstm@context.dev.npz",
        "kn5/model.safetensors",
        "trf/snapshots/epoch-000001.safetensors",
        "trf/training.safetensors.part",
    ):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("made")
    begin(out, True, said.append)
    assert everything(out) == {"demo.json": demo.MARK}
    assert [path.name for path in out.iterdir()] == ["demo.json"]

    theirs = {"notes.txt": b"1", "data/mine/settings.json": b"2", "kn5/notes.txt": b"3", "mine/model.safetensors": b"4"}
    elsewhere = {"settings.json": b"5", "epoch-000001.safetensors": b"6"}
    prepare(out / "data", CONFIG, 1, said.append)
    for place, files in ((out, theirs), (tmp_path / "elsewhere", elsewhere)):
        for name, content in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)
    (out / "trf").mkdir()
    (out / "trf/snapshots").symlink_to(tmp_path / "elsewhere")
    begin(out, True, said.append)
    assert everything(out) == {"demo.json": demo.MARK, **theirs}
    assert everything(tmp_path / "elsewhere") == elsewhere
    assert said[-1] == f"{out}: 5 files and directories are left which a demo did not make"
