"""A few of the faults of `python -m tests.faults` in each run of the suite: every so many system calls of each command."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EVERY = {"train": 40, "rescore": 11, "tune": 9, "nbest": 3, "reproduce": 26}


@pytest.mark.skipif(shutil.which("cc") is None or sys.platform != "linux", reason="needs a C compiler and LD_PRELOAD")
@pytest.mark.parametrize("command", EVERY)
def test_a_fault_loses_nothing(command):
    words = [sys.executable, Path(__file__).with_name("faults.py"), "--commands", command, "--every", EVERY[command]]
    done = subprocess.run([*map(str, words), "--first", "2"], check=False, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert f"{command}: " in done.stdout
