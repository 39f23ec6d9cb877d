"""A model by its content: which files it is, and one hash of them. Where it lies, and under which name, does not matter."""

import hashlib
import json
from pathlib import Path

from trflm.evaluation.weights import content_hash
from trflm.experiment.store import is_arpa, read_config
from trflm.field.snapshots import REFERENCE
from trflm.files.tensors import load_note

CONFIG, VOCAB, MODEL = "config.json", "vocab.txt", "model.safetensors"


def model_files(path: Path) -> list[str]:
    """What of a model directory is read when it is loaded, by names within it."""
    snapshots = [f"snapshots/{name}" for name in load_note(path / MODEL).get("snapshots", [])]
    return [CONFIG, VOCAB, MODEL, *([REFERENCE] if (path / REFERENCE).exists() else []), *snapshots]


def model_hash(path: Path | str) -> str:
    """Of all that scores depend on: the shape of the model, its words, its parameters. A copy has the same, and so have an ARPA
    file and its .gz."""
    path = Path(path)
    if is_arpa(path):
        return content_hash(path)
    recipe = read_config(path / CONFIG).get("recipe", {})
    shape = {section: recipe.get(section) for section in ("model", "reference")}
    parts = [json.dumps(shape, sort_keys=True)]
    parts += [f"{name} {content_hash(path / name)}" for name in model_files(path) if name != CONFIG]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
