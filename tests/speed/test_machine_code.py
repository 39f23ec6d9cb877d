"""A damaged file of compiled code is never run: the loop is compiled again and the file replaced."""

import importlib.util
import sys

import pytest

numba = pytest.importorskip("numba")

SOURCE = """
from trflm.speed.compiled import compiled

@compiled
def add(a, b):
    return a + 2 * b
"""


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """A function that imports the loops anew, as another process would."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")  # beside the source, wherever $NUMBA_CACHE_DIR leads
    (tmp_path / "some_loops.py").write_text(SOURCE)

    def load():
        spec = importlib.util.spec_from_file_location("some_loops", tmp_path / "some_loops.py")
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules["some_loops"] = importlib.util.module_from_spec(spec)  # numba looks for it there
        spec.loader.exec_module(module)
        return module.add

    yield load
    del sys.modules["some_loops"]


def test_a_damaged_cache_heals(fresh, tmp_path):
    def hits_after_a_call() -> int:
        function = fresh()
        assert function(1, 2) == 5
        return sum(function.stats.cache_hits.values())

    assert [hits_after_a_call(), hits_after_a_call()] == [0, 1]
    (index,), (code,) = (list((tmp_path / "__pycache__").glob(f"*.{ending}")) for ending in ("nbi", "nbc"))
    for file in (index, code):
        for damage in (b"", b"no such thing", file.read_bytes()[:-7]):
            file.write_bytes(damage)
            assert [hits_after_a_call(), hits_after_a_call()] == [0, 1], (file, damage)
    changed = bytearray(code.read_bytes())
    changed[len(changed) // 2] ^= 1  # in the machine code, where unpickling would not see it
    code.write_bytes(changed)
    assert [hits_after_a_call(), hits_after_a_call()] == [0, 1]
