"""The notebook runs from its first cell to its last, and what it shows is so."""

import json
from pathlib import Path
from typing import Any

import pytest

import trflm

NOTEBOOK = Path(__file__).parents[1] / "examples" / "rescore.ipynb"


def cells(kind: str) -> list[str]:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for number, source in enumerate(cells("code"), 1):
        exec(compile(source, f"cell {number} of {NOTEBOOK.name}", "exec"), names)
    assert names["after"].rate < names["before"].rate
    assert names["result"].best == "the farmer saw the sea"
    assert names["same"].scores == names["result"].scores


def test_the_notebook_uses_everything_that_trflm_offers() -> None:
    code = "\n".join(cells("code"))
    assert [name for name in trflm.__all__ if f"trflm.{name}" not in code and name != "rescore"] == []


def test_the_notebook_is_stored_without_output() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert not any(cell.get("outputs") for cell in notebook["cells"])


def test_what_trflm_offers_is_listed_typed_and_described() -> None:
    assert set(trflm.__all__) < set(dir(trflm))
    assert (Path(trflm.__file__).parent / "py.typed").exists()
    for name in trflm.__all__:
        assert getattr(trflm, name).__doc__, name
    page = (Path(__file__).parents[1] / "docs" / "api.md").read_text(encoding="utf-8")
    assert all(f"## trflm.{name}\n" in page for name in trflm.__all__)
