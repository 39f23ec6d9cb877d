import json

import numpy as np
import pytest
import safetensors.torch
import torch
from harness import same_state
from hypothesis import given
from hypothesis import strategies as st

from trflm.errors import InputError, TrainingError
from trflm.files import tensors as tensors_module
from trflm.files.tensors import (
    FORMAT,
    NOTE,
    TYPES,
    fill,
    load_note,
    load_state,
    save_state,
    serialized,
    strip,
    write_atomically,
)

leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=5)
nested = st.recursive(
    leaves, lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), x, max_size=3)
)


@given(nested)
def test_strip_and_fill_are_inverse(value):
    tensors = {}
    assert fill(json.loads(json.dumps(strip(value, "", tensors))), tensors) == value


def test_the_bytes_are_those_of_safetensors():
    """Tensors of every type, empty ones, single numbers, one of odd strides, two on the same memory."""
    numbers = torch.arange(12, dtype=torch.float32)
    tensors = {f"t{i}": numbers[:i].to(dtype) for i, dtype in enumerate(TYPES)}
    tensors |= {"é": torch.tensor(3.5), "empty": torch.zeros(0, 3), "b": numbers.view(3, 4), "a": numbers[4:8]}
    tensors["odd"] = numbers.as_strided((1, 1), (5, 7), 3)
    expected = safetensors.torch.save({name: x.clone() for name, x in tensors.items()}, {NOTE: 'a "note" é'})
    assert b"".join(serialized(tensors, {NOTE: 'a "note" é'})) == expected
    assert set(TYPES) >= {torch.int64, torch.float64, torch.bfloat16, torch.bool}


def test_a_large_state_is_not_copied(tmp_path):
    """What is written is the memory of the tensors themselves."""
    table = torch.arange(1000.0)
    header, content = serialized({"w": table}, {})
    table[0] = 7.0
    assert np.frombuffer(content, np.float32)[0] == 7.0
    stripped: dict[str, torch.Tensor] = {}
    strip({"w": table}, "", stripped)
    assert stripped["/w"].data_ptr() == table.data_ptr()
    assert len(header) % 8 == 0


def test_optimiser_state_comes_back_bit_for_bit(tmp_path):
    parameter = torch.nn.Parameter(torch.randn(5, generator=torch.Generator().manual_seed(0)))
    optimiser = torch.optim.Adam([parameter], lr=0.1)
    parameter.square().sum().backward()
    optimiser.step()
    save_state(tmp_path / "s", {"optimiser": optimiser.state_dict(), "x": torch.arange(3, dtype=torch.float64)}, step=3)
    state, note = load_state(tmp_path / "s")
    assert note == {"format": FORMAT, "step": 3}
    assert torch.equal(state["x"], torch.arange(3, dtype=torch.float64))
    for name, value in optimiser.state_dict()["state"][0].items():
        assert torch.equal(state["optimiser"]["state"][0][name], value)
    other = torch.optim.Adam([parameter], lr=0.5)
    other.load_state_dict(state["optimiser"])
    assert other.param_groups[0]["lr"] == 0.1


def test_a_note_is_read_without_the_state(tmp_path, monkeypatch):
    save_state(tmp_path / "s", {"x": torch.arange(3)}, step=3)

    def never(*arguments):
        raise AssertionError("the state was read")

    monkeypatch.setattr(tensors_module, "fill", never)
    assert load_note(tmp_path / "s") == {"format": FORMAT, "step": 3}
    (tmp_path / "s").write_bytes(b"damaged")
    with pytest.raises(InputError, match="not a model file, or a damaged one"):
        load_note(tmp_path / "s")


def test_what_cannot_be_saved_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(TypeError, match="/f: a function cannot be saved"):
        save_state(tmp_path / "s", {"f": fill})
    assert list(tmp_path.iterdir()) == []


def written(tmp_path, **note):
    path = tmp_path / "model.safetensors"
    save_state(path, {"w": torch.zeros(100)}, **note)
    return path


def test_truncated_anywhere(tmp_path):
    path = written(tmp_path)
    whole = path.read_bytes()
    for size in (0, 4, 50, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"model\.safetensors: not a model file, or a damaged one"):
            load_state(path)


def test_foreign_newer_and_missing(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(safetensors.torch.save({"w": torch.zeros(2)}))
    with pytest.raises(InputError, match="not one of trflm's"):
        load_state(path)
    path.write_bytes(safetensors.torch.save({"w": torch.zeros(2)}, {NOTE: json.dumps({"format": FORMAT + 1, "state": []})}))
    with pytest.raises(InputError, match=f"file format {FORMAT + 1} is newer than this trflm reads .* upgrade"):
        load_state(path)
    for note in ("[]", "{}", '{"format": "x", "state": 1}', "not json"):
        path.write_bytes(safetensors.torch.save({"w": torch.zeros(2)}, {NOTE: note}))
        with pytest.raises(InputError, match="damaged"):
            load_state(path)
    path.write_bytes(b"\x80\x04pickle says hello")
    with pytest.raises(InputError, match="not a model file"):
        load_state(path)
    with pytest.raises(InputError, match="there is no such file"):
        load_state(tmp_path / "none")


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_with_a_message(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "f"
    path.write_bytes(content)
    with pytest.raises(InputError, match="/f:"):
        load_state(path)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "f"
    write_atomically(path, b"old")
    monkeypatch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(TrainingError, match=r"No space left on device; the f written before is intact\. Free some space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_every_flipped_bit_is_noticed(tmp_path):
    """In the numbers, in their header and in the note. A blank that becomes another blank is the same file."""
    path = tmp_path / "state.safetensors"
    state = {"weight": torch.randn(4, 3), "count": torch.arange(3), "of": [{"step": 3, "rate": 0.1}]}
    save_state(path, state, step=7)
    whole, loaded = path.read_bytes(), load_state(path)
    for bit in range(0, 8 * len(whole), 7):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            found = load_state(path)
        except InputError:
            continue
        assert same_state(list(found), list(loaded)), bit


def test_a_single_number_with_any_stride_is_saved(tmp_path):
    single = torch.from_numpy(np.broadcast_to(np.array(2.5), (1,)).copy()).as_strided((1,), (0,))
    save_state(tmp_path / "s", {"x": single})
    assert load_state(tmp_path / "s")[0]["x"].tolist() == [2.5]
