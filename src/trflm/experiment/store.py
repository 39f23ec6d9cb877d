"""Models on disk: a directory with config.json, vocab.txt, model.safetensors and perhaps snapshots/; or an ARPA file."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trflm import lms, potentials
from trflm.errors import InputError
from trflm.experiment.toml import choose, parse
from trflm.field.snapshots import REFERENCE, FieldModel
from trflm.field.trf import TRF
from trflm.files.parse import parse_json
from trflm.files.reader import read_whole, regular
from trflm.files.tensors import MissingFile, load_note, load_state, save_state
from trflm.kinds import Start
from trflm.language_model import LanguageModel, Origin, Stored
from trflm.learning.context import Given
from trflm.lms.lstm import LSTM
from trflm.lms.ngram import KneserNeyConfig, NGram, read_arpa
from trflm.lms.proposals import stored_proposal
from trflm.lms.proposals.lstm import LSTMProposalConfig
from trflm.lms.proposals.protocol import Proposal
from trflm.potentials.protocol import PotentialConfig
from trflm.potentials.tilted import Tilted
from trflm.sampling.draw import FieldSampler
from trflm.sampling.mixture import TransMSConfig
from trflm.speed.devices import check_device
from trflm.text import Vocab


def save_model(path: Path, model: Stored, *, step: int | None = None, snapshots: Sequence[str] = ()) -> None:
    """model.safetensors, or a snapshot, beside the config.json and vocab.txt that are already there.

    `snapshots` names the files whose scores are averaged in place of this one's.
    """
    note: dict[str, Any] = {} if step is None else {"step": step}
    note |= {"vocab": vocab_hash(model.vocab), **model.note()}
    if snapshots:
        note["snapshots"] = list(snapshots)
    save_state(path, model.to_state(), content="model", **note)


def save_fixed_parts(run: Path, model: Stored) -> None:
    """What a model rests on and never changes (the reference of a field), unless the run holds it already."""
    for name, part in model.fixed_parts().items():
        if not (run / name).exists():
            save_model(run / name, part)


def vocab_hash(vocab: Vocab) -> str:
    return hashlib.sha256(vocab.to_text().encode()).hexdigest()


def given_by(run: Path, vocab: Vocab) -> Given:
    """The parameters of the model of `run`, for another run to start from."""
    file = run / "model.safetensors"
    if not file.exists():
        raise InputError(f"{run}: there is no model to start from; give the directory of a run that has reached a checkpoint")
    state, note = load_state(file)
    if note.get("vocab") != vocab_hash(vocab):
        raise InputError(f"{run}: knows other words than this run; --init needs a model that was trained on the same text")
    return Given(file, state)


def load_model(path: Path | str, bf16: bool = False, device: str = "cpu") -> LanguageModel:
    """Load a language model of any kind; of a random field, the snapshots it kept.

        lm = trflm.load("runs/tiny")
        lm.log_prob(["the farmer sold the horse"])

    Args:
        path: A run directory of `trf train`, a saved model directory or an ARPA file (.arpa, .arpa.gz).
        bf16: Multiply in bf16, if the model is a random field or an LSTM and the CPU has instructions for it.
        device: Where a network computes its scores: "cpu", or as torch names a GPU. N-gram models are looked up on the CPU.
    """
    path = Path(path)
    check_device(device, "device")
    lm, config = (read_arpa(path), {}) if is_arpa(path) else _load_directory(path, bf16)
    if isinstance(lm, FieldModel | LSTM):
        lm.to(device)
    types = config.get("unknown_types")
    lm.origin = Origin(path, types if isinstance(types, int) else 0)
    return lm


def is_arpa(path: Path) -> bool:
    return path.name.endswith((".arpa", ".arpa.gz"))


def _load_directory(path: Path, bf16: bool) -> tuple[LanguageModel, dict[str, Any]]:
    """The model of a directory, and its config.json."""
    if not path.is_dir():
        problem = "not a model directory" if path.exists() else "there is no such directory"
        raise InputError(f"{path}: {problem}; give what trf train wrote, or an ARPA file (.arpa, .arpa.gz)")
    config = read_config(path / "config.json")
    vocab = Vocab.from_list(regular(path / "vocab.txt"))
    last = path / "model.safetensors"
    if not last.exists():
        raise InputError(f"{path}: no model was saved here yet; let trf train reach its first checkpoint")
    with belonging(last):
        recipe, where = config["recipe"], str(path / "config.json")
        kind = choose((*potentials.POTENTIALS, *lms.DIRECTED), recipe["model"], where, "model")
        model = parse(kind, recipe["model"], where, "model")
    if kind in lms.DIRECTED:
        state, _ = load_content(last, vocab)
        with belonging(last):
            check_size(model, vocab, state)
            directed = model.stored(vocab, state)
        if bf16 and isinstance(directed, LSTM):
            directed.use_bf16()
        return directed, config
    lm = load_fields(path, model, recipe, vocab)
    if bf16:
        lm.engine.use_bf16()
    return lm, config


def load_fields(path: Path, model: PotentialConfig, recipe: dict[str, Any], vocab: Vocab) -> FieldModel:
    """A field, or the snapshots that take its place."""
    files, contents = load_snapshots(path, vocab)
    reference = load_ngram(path / REFERENCE, vocab) if recipe.get("reference", {}).get("order") else None
    fields: list[TRF] = []
    for file, (state, note) in zip(files, contents, strict=True):
        with belonging(file):
            check_size(model, vocab, state)
            potential = model.build(Start(vocab))
            trf = TRF(vocab, Tilted(potential, reference) if reference else potential, state["trf"]["pi"])
            trf.load_state_dict(state["trf"])
            trf.remember_log_Z1(float(note["log_Z1"]))
            fields.append(trf)
    with belonging(files[-1]):
        proposal = load_proposal(contents[-1][0]["proposal"], recipe, vocab, fields[-1], reference)
    learner = recipe.get("learner", {})
    moves = TransMSConfig(**{k: learner[k] for k in ("jump_range", "block", "trials") if k in learner})
    return FieldModel(fields, FieldSampler(proposal, moves))


def load_snapshots(path: Path, vocab: Vocab) -> tuple[list[Path], list[tuple[dict[str, Any], dict[str, Any]]]]:
    """The files of a field, or of the snapshots that take its place, and what they hold. A run that is training removes old
    snapshots after it has named new ones: whoever comes between looks again."""
    last = path / "model.safetensors"
    names = None
    while True:
        before, names = names, load_note(last).get("snapshots", [])
        if not isinstance(names, list) or not all(isinstance(name, str) and Path(name).name == name for name in names):
            raise InputError(f"{last}: its snapshots must be names of files, not {str(names)[:100]!r}")
        files = [path / "snapshots" / name for name in names] or [last]
        try:
            return files, [load_content(file, vocab) for file in files]
        except MissingFile:
            if names == before:
                raise


def load_proposal(state: dict[str, Any], recipe: dict[str, Any], vocab: Vocab, trf: TRF, reference: NGram | None) -> Proposal:
    config = parse(LSTMProposalConfig, recipe.get("proposal", {}), "config.json", "proposal")
    return stored_proposal(state, config, vocab, trf.pi, reference)


def load_ngram(file: Path, vocab: Vocab) -> NGram:
    state, _ = load_content(file, vocab)
    with belonging(file):
        return KneserNeyConfig().stored(vocab, state)


def load_content(file: Path, vocab: Vocab) -> tuple[dict[str, Any], dict[str, Any]]:
    """(state, note) of a model file of this vocabulary."""
    state, note = load_state(file)
    if note.get("content") != "model":
        raise InputError(f"{file}: holds {note.get('content')!r}, not a model")
    if note.get("vocab", vocab_hash(vocab)) != vocab_hash(vocab):
        raise InputError(f"{file}: does not belong to the vocab.txt beside it; copy the whole directory again")
    for name, tensor in tensors_of(state):
        if tensor.is_floating_point() and not bool((tensor < math.inf).all()):  # log 0 = -inf may be stored, nan and inf not
            raise InputError(
                f"{file}: {name} holds numbers that are not finite: a damaged model, or one whose training diverged"
            )
    return state, note


def check_size(model: Any, vocab: Vocab, state: dict[str, Any]) -> None:
    """The network that config.json asks for has no more numbers than the file holds: a larger one is never built."""
    if not isinstance(model, KneserNeyConfig):  # which is all in its file
        with torch.device("meta"):  # shapes alone
            asked = sum(parameter.numel() for parameter in model.build(Start(vocab)).parameters())
        held = sum(tensor.numel() for _, tensor in tensors_of(state))
        if asked > held:
            raise InputError(f"model asks for {asked:,} parameters, but there are {held:,} numbers here")


def tensors_of(state: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """(path, tensor) of all tensors in nested state."""
    if isinstance(state, Tensor):
        yield path, state
    elif isinstance(state, dict | list):
        for key, value in state.items() if isinstance(state, dict) else enumerate(state):
            yield from tensors_of(value, f"{path}/{key}".lstrip("/"))


@contextmanager
def belonging(file: Path) -> Iterator[None]:
    """What does not fit together is said in one way."""
    try:
        yield
    except (KeyError, TypeError, RuntimeError, InputError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{file}: does not belong to the config.json and vocab.txt beside it: {reason}") from error


def read_config(path: Path) -> dict[str, Any]:
    regular(path)
    try:
        config = parse_json(read_whole(path))
        if not isinstance(config, dict):
            raise ValueError("not a JSON object")
        recipe = config.get("recipe", {})
        if not isinstance(recipe, dict) or not all(isinstance(table, dict) for table in recipe.values()):
            raise ValueError("its recipe is not an object of objects")
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file; is {path.parent} a run that trf train made?") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: damaged or not ours: {error}") from error
    return config
