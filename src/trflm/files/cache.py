"""Results that take minutes and depend on a text alone, kept between runs: tensors by the hash of what they come from.

A cache is only a saving: a file that is damaged, of another kind or cannot be written is as good as none.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor

from trflm.files.writer import replacing

Tensors = dict[str, Tensor]


def cache_directory() -> Path:
    """$XDG_CACHE_HOME/trflm, or ~/.cache/trflm."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trflm"


def cached(what: str, made_from: Sequence[Tensor], compute: Callable[[], Tensors]) -> Tensors:
    """What `compute` makes of these whole numbers, from the cache if it is there. `what` names the computation and all its
    settings."""
    content = hashlib.sha256(what.encode())
    for part in made_from:
        content.update(part.long().cpu().numpy().tobytes())
    path = cache_directory() / f"{content.hexdigest()}.safetensors"
    with contextlib.suppress(safetensors.SafetensorError, OSError):
        return safetensors.torch.load_file(path)
    tensors = compute()
    with contextlib.suppress(OSError):
        write(path, tensors)
    return tensors


def write(path: Path, tensors: Tensors) -> None:
    """In one move: who reads at the same time sees all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(safetensors.torch.save({name: tensor.contiguous() for name, tensor in tensors.items()}))
