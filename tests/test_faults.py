"""A fault for each kind of system call of each command, in each run of the suite; `python -m tests.faults` makes them all."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = ("train", "rescore", "tune", "nbest", "reproduce")


@pytest.mark.skipif(shutil.which("cc") is None or sys.platform != "linux", reason="needs a C compiler and LD_PRELOAD")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_fault_loses_nothing(command):
    words = [sys.executable, Path(__file__).with_name("faults.py"), "--commands", command, "--kinds"]
    done = subprocess.run(list(map(str, words)), check=False, capture_output=True, text=True, timeout=1100)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert f"{command}: " in done.stdout
