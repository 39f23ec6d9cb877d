"""A machine without numba: commands do without the compiled loops, and what cannot says what is missing."""

import subprocess
import sys

import pytest
from commands import trf
from deploy.tiny_models import model

HIDDEN = "import sys; sys.modules['numba'] = None; from trflm.cli import main; main()"


def without_numba(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", HIDDEN, *map(str, arguments)]
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("kind", ["cnn", "lstm"])
def test_scores_are_the_same(kind, tmp_path):
    (tmp_path / "text").write_text("the cat ran\na bird\nsat the dog ran a emu\n")
    with_it = trf("score", model(kind), tmp_path / "text", "--quiet")
    done = without_numba("score", model(kind), tmp_path / "text", "--quiet")
    assert done.returncode == 0, done.stderr
    numbers = [float(line) for line in done.stdout.split()]
    assert numbers == pytest.approx([float(line) for line in with_it.stdout.split()], abs=1e-5)
    assert len(numbers) == 3


def test_the_simulated_recogniser_names_it(tmp_path):
    (tmp_path / "text").write_text("the rose\n")
    text = tmp_path / "text"
    done = without_numba("nbest", "simulate", "--text", text, "--words", text, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("trf: the simulated recogniser needs numba (")
    assert len(done.stderr) < 300
