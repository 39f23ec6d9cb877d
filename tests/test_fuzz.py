"""A few seeded mutants of every file in each run of the suite; `python -m tests.fuzz` goes on for as long as one likes."""

from pathlib import Path

import pytest
from commands import trf
from fuzz import TARGETS, case, sandbox

from trflm.errors import printable

EACH = 3


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz")
    sandbox(path)
    return path


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.file)
def test_mutants_end_with_a_message(target, directory):
    for number in range(EACH):
        problem, _ = case(target, number, directory)
        assert not problem, f"python -m tests.fuzz --case {target.file}:{number}"


def test_messages_are_cut_and_escaped():
    assert printable("a\x1b[31mb\u200bc\n") == "a\\x1b[31mb\\u200bc\n"
    cut = printable("x" * 10_000_000)
    assert len(cut) < 2000
    assert "9,998,200 characters left out" in cut


def test_a_device_is_written_into_and_a_full_disk_is_one_message(directory):
    done = trf("report", directory / "field", "--out", "/dev/full")
    assert Path("/dev/full").is_char_device()  # not a file in its place
    assert done.returncode == 1
    assert done.stderr == "trf: writing: No space left on device\n"
