"""Metrics as TensorBoard shows them are those of metrics.jsonl, also after a run went on."""

import json
from pathlib import Path

import pytest
from commands import TINY_LSTM, tiny_recipe

from trflm.errors import InputError
from trflm.experiment import board
from trflm.experiment.progress import progress
from trflm.experiment.recipe import read_recipe
from trflm.experiment.run import run_recipe


def run(place: Path, resume: bool, *settings: str) -> None:
    recipe = read_recipe(tiny_recipe(place, TINY_LSTM), ["run.tensorboard=true", *settings])
    run_recipe(recipe, place / "run", resume, progress(True))


def test_events_are_the_metrics(tmp_path: Path):
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="tensorboard is not installed: pip install 'trflm[tensorboard]'",
    )
    run(tmp_path, False, "run.epochs=1")
    run(tmp_path, True, "run.epochs=2")
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    events = reader.EventAccumulator(str(tmp_path / "run/tensorboard"))
    events.Reload()
    for name, tag in (("loss", "loss"), ("lr", "lr"), ("dev_perplexity", "dev/perplexity")):
        expected = [(row["step"], pytest.approx(row[name], rel=1e-6)) for row in rows if name in row]
        assert [(event.step, event.value) for event in events.Scalars(tag)] == expected
    assert len(events.Scalars("dev/perplexity")) == 2


def test_without_tensorboard_a_run_says_so_before_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(board, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'trflm\[tensorboard\]'"):
        run(tmp_path, False)
    assert not (tmp_path / "run").exists()
