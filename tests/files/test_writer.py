"""A file or directory appears whole or not at all."""

import gzip
import os
from pathlib import Path

import pytest

from trflm.errors import InputError
from trflm.files.writer import open_to_append, replacing, write_directory, write_text


def test_text_appears_on_success_only(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    with pytest.raises(KeyboardInterrupt), write_text(tmp_path / "a.txt") as file:
        file.write("half")
        raise KeyboardInterrupt
    assert (tmp_path / "a.txt").read_text() == "old\n"
    with write_text(tmp_path / "a.txt") as file:
        file.write("né\n")
    assert (tmp_path / "a.txt").read_bytes() == b"n\xc3\xa9\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"], "nothing is left beside it"


def test_packed_text_is_the_same_bytes_every_time(tmp_path: Path) -> None:
    for name in ["a.gz", "b.gz"]:
        with write_text(tmp_path / name) as file:
            file.write("x\n")
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"x\n"
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_directory_appears_on_success_only(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), write_directory(tmp_path / "out") as partial:
        (partial / "x").write_text("half")
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    with write_directory(tmp_path / "out") as partial:
        (partial / "x").write_text("whole")
    assert (tmp_path / "out/x").read_text() == "whole"
    with pytest.raises(InputError, match="exists already; give a new name"), write_directory(tmp_path / "out"):
        pass


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"), write_text(tmp_path / "no/a.txt"):
        pass
    with pytest.raises(InputError, match="is a directory"), write_text(tmp_path):
        pass
    with pytest.raises(InputError, match="cannot be made"), write_directory(tmp_path / "no/out"):
        pass


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    for name in ["a", "a.part", "log"]:
        (tmp_path / name).symlink_to(tmp_path / "precious")
    for _ in range(2):  # over a link, then over a file
        with replacing(tmp_path / "a", durable=True) as file:
            file.write(b"new")
    assert not (tmp_path / "a").is_symlink()
    assert (tmp_path / "a").read_bytes() == b"new"
    with pytest.raises(InputError, match=r"log: is a symbolic link where a regular file is expected"):
        open_to_append(tmp_path / "log")
    os.link(tmp_path / "precious", tmp_path / "second")
    with pytest.raises(InputError, match=r"second: has another name as well"):
        open_to_append(tmp_path / "second")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"pipe: is something else where a regular file is expected"):
        open_to_append(tmp_path / "pipe")
    assert (tmp_path / "precious").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "log", "pipe", "precious", "second"]
