"""Models on disk: a directory with config.json, vocab.txt and model.safetensors. Which class each kind of recipe makes."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trflm.checkpoint import load_state, save_state
from trflm.config import CNNModel, parse
from trflm.errors import InputError
from trflm.language_model import LanguageModel
from trflm.potentials.cnn import CNN
from trflm.text import Vocab
from trflm.trf import TRF


def build_trf(model: CNNModel, vocab: Vocab, pi: Tensor, rng: torch.Generator | None = None) -> TRF:
    """A random field with fresh parameters."""
    return TRF(vocab, CNN(model, len(vocab), rng), pi)


def save_model(directory: Path, trf: TRF, step: int) -> None:
    """model.safetensors, beside the config.json and vocab.txt that are already there."""
    save_state(directory / "model.safetensors", trf.state_dict(), content="model", step=step, log_Z1=trf.log_Z1())


def load_model(path: Path | str) -> LanguageModel:
    """The model of a run directory or a saved model directory."""
    path = Path(path)
    if not path.is_dir():
        raise InputError(
            f"{path}: {'not a model' if path.exists() else 'there is no such'} directory; give what trf train wrote"
        )
    config = read_config(path / "config.json")
    vocab = Vocab.from_list(path / "vocab.txt")
    model_path = path / "model.safetensors"
    if not model_path.exists():
        raise InputError(f"{path}: no model was saved here yet; let trf train reach its first checkpoint")
    state, note = load_state(model_path)
    if note.get("content") != "model":
        raise InputError(f"{model_path}: holds {note.get('content')!r}, not a model")
    try:
        model = parse(CNNModel, config["recipe"]["model"], where=str(path / "config.json"), name="model")
        trf = build_trf(model, vocab, state["pi"])
        trf.load_state_dict(state)
        trf.remember_log_Z1(float(note["log_Z1"]))
    except (KeyError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{model_path}: does not belong to the config.json and vocab.txt beside it: {reason}") from error
    return trf


def read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("not a JSON object")
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file; is {path.parent} a run that trf train made?") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: damaged or not ours: {error}") from error
    return config
