"""A few seeded mutants of every file in each run of the suite; `python -m tests.fuzz` goes on for as long as one likes."""

import os
import subprocess
import sys

import pytest
from commands import trf
from fuzz import READERS, TARGETS, case, more_files, read_mutant, sandbox

from trflm.errors import printable

EACH, EACH_READER = 3, 60


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz")
    sandbox(path)
    more_files(path)
    return path


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.file)
def test_mutants_end_with_a_message(target, directory):
    for number in range(EACH):
        problem, _ = case(target, number, directory)
        assert not problem, f"python -m tests.fuzz --case {target.file}:{number}"


@pytest.mark.parametrize("file", READERS)
@pytest.mark.filterwarnings("ignore:.*has no <unk>:UserWarning")
def test_a_reader_gives_what_is_there_or_an_input_error(file, directory):
    for number in range(EACH_READER):
        problem, _ = read_mutant(file, number, directory)
        assert not problem, f"python -m tests.fuzz --readers --case {file}:{number}"


def test_messages_are_cut_and_escaped():
    assert printable("a\x1b[31mb\u200bc\n") == "a\\x1b[31mb\\u200bc\n"
    cut = printable("x" * 10_000_000)
    assert len(cut) < 2000
    assert "9,998,200 characters left out" in cut


def test_a_pipe_is_written_into(directory):
    pipe = directory / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    done = trf("report", directory / "field", "--out", pipe)
    assert done.returncode == 0, done.stderr
    assert pipe.is_fifo()  # not a file in its place
    assert os.read(reader, 15) == b"<!doctype html>"
    os.close(reader)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_one_message(directory, unbuffered):
    words = [sys.executable, "-m", "trflm", "score", directory / "field", directory / "text.txt"]
    with open("/dev/full", "w") as full:
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        done = subprocess.run(words, check=False, stdout=full, stderr=subprocess.PIPE, text=True, timeout=300, env=environment)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "trf: writing: No space left on device"
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
