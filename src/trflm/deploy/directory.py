"""The directory of a Rescorer. It holds all that a score depends on, and may be moved or copied whole:

rescorer.json    models with the hashes of their content, weights, OOV penalties, mapping, versions
weights.json     if it was tuned: the same weights, on which files they were tuned and what they gave
models/NAME/     what of each model is needed to score; or models/NAME.arpa
table-1.tsv      a table of the mapping, if it has one
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trflm.errors import InputError
from trflm.evaluation.second_pass.scores import FirstPass
from trflm.evaluation.weights import TunedWeights, Weights, content_hash, load_weights
from trflm.experiment.content import model_files, model_hash
from trflm.experiment.directory import provenance
from trflm.experiment.store import is_arpa
from trflm.files.parse import parse_json
from trflm.files.reader import read_whole
from trflm.files.records import IF_SET, from_record, to_record
from trflm.files.writer import write_directory, write_text

FORMAT = "trflm rescorer 1"
FILE, WEIGHTS = "rescorer.json", "weights.json"
TABLE = "table="  # a step of a mapping that names a file


@dataclass(frozen=True)
class ModelEntry:
    """A model of a Rescorer: a file or directory with the hash of its content, or a score that the lists carry."""

    path: str | None = field(default=None, metadata=IF_SET)
    sha256: str | None = field(default=None, metadata=IF_SET)
    score: str | None = field(default=None, metadata=IF_SET)


@dataclass(frozen=True)
class Description:
    """rescorer.json."""

    models: Mapping[str, ModelEntry]
    weights: Weights
    mapping: str

    def identity(self, tables: list[str]) -> str:
        """One hash of all that a score depends on; `tables` are the hashes of the mapping's."""
        models = {name: entry.sha256 or f"score {entry.score}" for name, entry in self.models.items()}
        steps = ["table" if step.startswith(TABLE) else step for step in self.mapping.split(",")]
        content = [models, to_record(self.weights), steps, tables]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write(
    out: Path, models: Mapping[str, Path | FirstPass], weights: Weights, mapping: str, tuned: TunedWeights | None
) -> None:
    """A new directory, complete or not there at all."""
    with write_directory(out) as directory:
        entries: dict[str, ModelEntry] = {}
        for name, model in models.items():
            if isinstance(model, FirstPass):
                entries[name] = ModelEntry(score=model.name)
            else:
                path = _copy_model(model, name, directory)
                entries[name] = ModelEntry(path, model_hash(directory / path))
        description = Description(entries, weights, _copy_tables(mapping, directory))
        if tuned is not None:
            tuned.save(directory / WEIGHTS)
        with write_text(directory / FILE) as file:
            json.dump({"format": FORMAT, **to_record(description), "made by": provenance()}, file, indent=2)
            file.write("\n")


def read(directory: Path) -> Description:
    """What `write` wrote, looked at: nothing in it has changed. Anything else is an InputError."""
    try:
        record = parse_json(read_whole(directory / FILE))
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise ValueError(f'no "format": "{FORMAT}"')
        description = from_record(Description, record)
    except FileNotFoundError as error:
        raise InputError(f"{directory}: is not the directory of a rescorer; make one with `trf tune ... --out DIR`") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{directory / FILE}: damaged or not ours: {error}; make it anew with `trf tune`") from error
    for name, entry in description.models.items():
        if entry.path is not None and model_hash(inside(directory, entry.path)) != entry.sha256:
            raise InputError(f"{directory / entry.path}: is not the model {name} that was tuned; tune again with this one")
    if (directory / WEIGHTS).exists() and load_weights(directory / WEIGHTS).weights != description.weights:
        raise InputError(f"{directory}: {WEIGHTS} and {FILE} have different weights; copy the directory again, or tune again")
    return description


def located(mapping: str, directory: Path) -> str:
    """The mapping with its tables where they lie."""
    steps = mapping.split(",")
    return ",".join(f"{TABLE}{inside(directory, s.removeprefix(TABLE))}" if s.startswith(TABLE) else s for s in steps)


def named(mapping: str) -> str:
    """The mapping with its tables by name alone."""
    steps = mapping.split(",")
    return ",".join(f"{TABLE}{Path(s.removeprefix(TABLE)).name}" if s.startswith(TABLE) else s for s in steps)


def table_hashes(mapping: str) -> list[str]:
    """Of the tables of a mapping, in order."""
    return [content_hash(step.removeprefix(TABLE)) for step in mapping.split(",") if step.startswith(TABLE)]


def inside(directory: Path, name: str) -> Path:
    """A file of the directory; a name that leads out of it is refused."""
    path = directory / name
    if os.path.isabs(name) or ".." in Path(name).parts:
        raise InputError(f"{directory / FILE}: {name!r} leads out of the directory; make it anew with `trf tune`")
    return path


def short_names(names: Sequence[str]) -> list[str]:
    """The last part of each path, made distinct: runs/kn5, old/kn5 -> kn5, kn5-2."""
    found: list[str] = []
    for name in names:
        last = Path(name.removeprefix("score:")).name.removesuffix(".gz").removesuffix(".arpa") or "lm"
        short, number = last, 2
        while short in found:
            short, number = f"{last}-{number}", number + 1
        found.append(short)
    return found


def _copy_model(model: Path, name: str, directory: Path) -> str:
    (directory / "models").mkdir(exist_ok=True)
    if is_arpa(model):
        path = f"models/{name}{'.arpa.gz' if model.suffix == '.gz' else '.arpa'}"
        shutil.copyfile(model, directory / path)
        return path
    path = f"models/{name}"
    for file in model_files(model):
        target = directory / path / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(model / file, target)
    return path


def _copy_tables(mapping: str, directory: Path) -> str:
    steps: list[str] = []
    for step in mapping.split(","):
        if step.startswith(TABLE):
            source, step = step.removeprefix(TABLE), f"{TABLE}table-{len(steps) + 1}.tsv"
            shutil.copyfile(source, directory / step.removeprefix(TABLE))
        steps.append(step)
    return ",".join(steps)


def tuned_note(directory: Path) -> TunedWeights | None:
    """How the weights were found, if they were tuned."""
    return load_weights(directory / WEIGHTS) if (directory / WEIGHTS).exists() else None
