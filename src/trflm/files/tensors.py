"""Files that survive: written beside, fsynced and renamed, so that a kill at any moment leaves the last good one.

A file is safetensors with one JSON note in its metadata; nothing in it is ever executed. Nested state (an optimiser's,
a learner's) is stored as its tensors by path and the rest as JSON.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from trflm.errors import InputError, TrainingError
from trflm.files.writer import replacing

FORMAT = 1  # raised when a file of this version could not be read by the version before
NOTE = "trflm"  # the metadata key


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` by `content` in one move, or leave it as it was and raise TrainingError."""
    try:
        with replacing(path, durable=True) as file:
            file.write(content)
    except OSError as error:
        kept = f"; the {path.name} written before is intact" if path.exists() else ""
        raise TrainingError(
            f"{path}: cannot be written ({len(content):,} bytes): {error.strerror or error}{kept}. "
            "Free some space and go on with --resume"
        ) from error


def save_state(path: Path, state: dict[str, Any], **note: Any) -> None:
    """Write nested state: dicts, lists, numbers, strings, None and tensors."""
    tensors: dict[str, Tensor] = {}
    skeleton = strip(state, "", tensors)
    text = json.dumps({"format": FORMAT, **note, "state": skeleton})
    write_atomically(path, safetensors.torch.save(tensors, {NOTE: text}))


def load_state(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """(state, note) of a file that `save_state` wrote; one clear message for anything else."""
    with opened(path) as (file, note):
        tensors = {name: file.get_tensor(name) for name in file.offset_keys()}
        return fill(note.pop("state"), tensors), note


def load_note(path: Path) -> dict[str, Any]:
    """The note alone, from the header of the file: no tensor is read."""
    with opened(path) as (_, note):
        del note["state"]
        return note


@contextmanager
def opened(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """(file, what its header says); whatever does not fit is an InputError."""
    try:
        with safetensors.safe_open(path, "pt") as file:
            text = (file.metadata() or {}).get(NOTE)
            if text is None:
                raise InputError(f"{path}: a safetensors file, but not one of trflm's; give a model that trf train wrote")
            note = json.loads(text)
            if note["format"] > FORMAT:
                raise InputError(
                    f"{path}: file format {note['format']} is newer than this trflm reads ({FORMAT}); upgrade trflm"
                )
            yield file, note
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file") from error
    except (safetensors.SafetensorError, ValueError, TypeError, KeyError, OSError) as error:
        raise InputError(f"{path}: not a model file, or a damaged one ({error}); copy or train it again") from error


def strip(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """`value` as JSON; its tensors go to `tensors` under their path. A dict becomes a list of pairs: keys may be numbers."""
    match value:
        case Tensor():
            tensors[path] = value.detach().cpu().contiguous().clone()
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
