"""What of the engine a user meets on the command line."""

import pytest
from commands import tiny_recipe, trf


def test_bf16_is_a_choice_that_leaves_scores_nearly_as_they_are(tmp_path):
    """On a CPU without such instructions they stay exactly so; with them, 8 bits of a score near -10 are 0.04."""
    assert trf("train", tiny_recipe(tmp_path), "--out", tmp_path / "run", "--quiet", "--set", "run.epochs=2").returncode == 0
    scores = [trf("score", tmp_path / "run", *option, stdin="the cat ran\na dog sat\n") for option in ((), ("--bf16",))]
    exact, rounded = ([float(line) for line in done.stdout.splitlines()] for done in scores)
    assert len(exact) == 2
    assert rounded == pytest.approx(exact, abs=0.1)


def test_bench_says_what_data_it_needs(tmp_path):
    done = trf("bench", "rescore", "--data", tmp_path)
    assert done.returncode == 2
    assert "nbest.txt.gz" in done.stderr
    assert "Traceback" not in done.stderr
