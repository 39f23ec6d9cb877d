"""Files that survive: written beside, fsynced and renamed, so that a kill at any moment leaves the last good one.

A file is safetensors with one JSON note in its metadata; nothing in it is ever executed. Nested state (an optimiser's,
a learner's) is stored as its tensors by path and the rest as JSON. The note has the sha256 of everything else, so that a file
of which a single bit was changed is not read (files of format 1 have none).
"""

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from trflm.errors import InputError, TrainingError
from trflm.files.parse import parse_json
from trflm.files.reader import regular
from trflm.files.writer import replacing

FORMAT = 2  # raised when a file of this version could not be read by the version before
HASHED = 2  # from this one on files have their sha256
NOTE = "trflm"  # the metadata key
TYPES = {  # their names in safetensors, in the order that tensors have in a file
    torch.int64: "I64", torch.float64: "F64", torch.float32: "F32", torch.int32: "I32", torch.bfloat16: "BF16",
    torch.float16: "F16", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip


class MissingFile(InputError):
    """There is no such file."""


def write_atomically(path: Path, *content: bytes | memoryview) -> None:
    """Replace `path` by `content`, one part after another, in one move, or leave it as it was and raise TrainingError."""
    try:
        with replacing(path, durable=True) as file:
            for part in content:
                file.write(part)
    except OSError as error:
        kept = f"; the {path.name} written before is intact" if path.exists() else ""
        raise TrainingError(
            f"{path}: cannot be written ({sum(map(len, content)):,} bytes): {error.strerror or error}{kept}. "
            "Free some space and go on with --resume"
        ) from error


def save_state(path: Path, state: dict[str, Any], **note: Any) -> None:
    """Write nested state: dicts, lists, numbers, strings, None and tensors."""
    tensors: dict[str, Tensor] = {}
    whole = {"format": FORMAT, **note, "state": strip(state, "", tensors)}
    text = json.dumps({"sha256": content_hash(whole, tensors), **whole})
    write_atomically(path, *serialized(tensors, {NOTE: text}))


def serialized(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    """What `safetensors.torch.save` makes, in parts: the header, then the bytes of each tensor where they are. A large model is
    not copied. Types of wide numbers come first, which keeps every tensor aligned."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    order, at = list(TYPES), 0
    ordered = sorted(tensors.items(), key=lambda item: (order.index(item[1].dtype), item[0]))
    for name, tensor in ordered:
        end = at + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    yield struct.pack("<Q", len(text)) + text
    for _, tensor in ordered:
        yield bytes_of(tensor)


def bytes_of(tensor: Tensor) -> memoryview:
    """Of a tensor in one piece; its strides are not looked at (those of a single number may be any)."""
    assert tensor.is_contiguous()
    flat = tensor.as_strided((tensor.numel(),), (1,))
    return flat.view(torch.uint8).numpy().data


def content_hash(note: dict[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """The sha256 of the note and of the name, type, shape and bytes of each tensor."""
    digest = hashlib.sha256(json.dumps(note).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\0{name} {tensor.dtype} {list(tensor.shape)}\0".encode())
        digest.update(bytes_of(tensor))
    return digest.hexdigest()


def load_state(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """(state, note) of a file that `save_state` wrote; one clear message for anything else."""
    with opened(path) as (file, note):
        tensors = {name: file.get_tensor(name) for name in file.offset_keys()}
        written = note.pop("sha256", None)
        if (written is not None or note["format"] >= HASHED) and written != content_hash(note, tensors):
            raise InputError(f"{path}: damaged: its content is not what was written (sha256); copy or train it again")
        return fill(note.pop("state"), tensors), note


def load_note(path: Path) -> dict[str, Any]:
    """The note alone, from the header of the file: no tensor is read."""
    with opened(path) as (_, note):
        return {key: value for key, value in note.items() if key not in ("state", "sha256")}


@contextmanager
def opened(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """(file, what its header says); whatever does not fit is an InputError."""
    regular(path)
    try:
        with _mapped(path) as file:
            text = (file.metadata() or {}).get(NOTE)
            if text is None:
                raise InputError(f"{path}: a safetensors file, but not one of trflm's; give a model that trf train wrote")
            note = parse_json(text)
            if note["format"] > FORMAT:
                raise InputError(
                    f"{path}: file format {note['format']} is newer than this trflm reads ({FORMAT}); upgrade trflm"
                )
            yield file, note
    except InputError:
        raise
    except FileNotFoundError as error:
        raise MissingFile(f"{path}: there is no such file") from error
    except (safetensors.SafetensorError, ValueError, TypeError, KeyError, OSError) as error:
        raise InputError(f"{path}: not a model file, or a damaged one ({error}); copy or train it again") from error


def _mapped(path: Path) -> Any:
    """safetensors' file; torch opens it a second time, and what fails there is a RuntimeError."""
    try:
        return safetensors.safe_open(path, "pt")
    except RuntimeError as error:
        raise OSError(str(error)) from error


def strip(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """`value` as JSON; its tensors go to `tensors` under their path. A dict becomes a list of pairs: keys may be numbers."""
    match value:
        case Tensor():
            tensors[path] = value.detach().cpu().contiguous()
            return {"tensor": path}
        case dict():
            return {"pairs": [[key, strip(item, f"{path}/{key}", tensors)] for key, item in value.items()]}
        case list() | tuple():
            return [strip(item, f"{path}/{i}", tensors) for i, item in enumerate(value)]
        case None | bool() | int() | float() | str():
            return value
    raise TypeError(f"{path}: a {type(value).__name__} cannot be saved")


def fill(skeleton: Any, tensors: dict[str, Tensor]) -> Any:
    """The inverse of `strip` (tuples come back as lists)."""
    match skeleton:
        case {"tensor": path}:
            return tensors[path]
        case {"pairs": pairs}:
            return {key: fill(item, tensors) for key, item in pairs}
        case list():
            return [fill(item, tensors) for item in skeleton]
    return skeleton
