"""weights.json: what tuning found, on which files, so that rescoring another set can use it, and this one is caught.

Shapes: L language models.
"""

import hashlib
import json
import math
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trflm.errors import InputError
from trflm.evaluation.figures import Figures
from trflm.files.parse import parse_json
from trflm.files.reader import open_binary
from trflm.files.records import IF_SET, from_record, to_record
from trflm.files.remote import is_address
from trflm.files.writer import write_text

FORMAT = "trflm weights 1"


@dataclass(frozen=True)
class Weights:
    """score = acoustic + scale * sum_k weight_k * (LM_k - oov_penalty_k * OOV words of LM_k) + word_penalty * words."""

    lms: Mapping[str, float]  # name -> weight_k; they sum to one
    scale: float
    word_penalty: float = 0.0
    oov_penalty: float = 0.0
    oov_penalties: Mapping[str, float] | None = field(default=None, metadata=IF_SET)  # by model, in the place of the one above

    def penalty_of(self, name: str) -> float:
        """What a word that this model does not know costs."""
        return self.oov_penalty if self.oov_penalties is None else self.oov_penalties[name]

    def renamed(self, names: Mapping[str, str]) -> "Weights":
        """The same with other names for the models."""
        penalties = self.oov_penalties
        if penalties is not None:
            penalties = {names[name]: penalty for name, penalty in penalties.items()}
        lms = {names[name]: weight for name, weight in self.lms.items()}
        return Weights(lms, self.scale, self.word_penalty, self.oov_penalty, penalties)

    @property
    def factors(self) -> tuple[float, ...]:
        """[L] scale * weight_k: what each language model's score is multiplied by."""
        return tuple(self.scale * weight for weight in self.lms.values())

    @classmethod
    def from_factors(cls, names: Sequence[str], factors: Iterable[float], word_penalty: float, oov_penalty: float) -> "Weights":
        factors = list(factors)
        scale = sum(factors)
        shares = [factor / scale if scale else 1 / len(factors) for factor in factors]
        return cls(dict(zip(names, shares, strict=True)), scale, word_penalty, oov_penalty)


@dataclass(frozen=True)
class FileContent:
    """A file, and what was in it."""

    path: str
    sha256: str


@dataclass(frozen=True)
class CrossValidation:
    """The figures of utterances that were each chosen in by weights tuned on the other folds."""

    folds: int
    figures: Figures


@dataclass(frozen=True)
class TunedWeights:
    """Weights with their origin."""

    weights: Weights
    mapping: str  # the text mapping by name, as `parse_mapping` reads it
    dev: Figures  # on the tuning set
    tuned_on: Mapping[str, FileContent]  # by role: nbest, ref, ...
    scale_curve: Sequence[tuple[float, float]] = ()  # (scale, WER), the other weights as tuned
    cross_validation: CrossValidation | None = None
    models: Mapping[str, str] | None = field(default=None, metadata=IF_SET)  # name -> hash of the content

    def save(self, path: Path | str) -> None:
        record = {"format": FORMAT, **to_record(self)}
        found = self.cross_validation
        record["cross_validation"] = {} if found is None else {"folds": found.folds, **to_record(found.figures)}
        with write_text(path) as file:
            json.dump(record, file, indent=2)
            file.write("\n")

    def same_content(self, files: Mapping[str, FileContent]) -> list[str]:
        """Which of these files the weights were tuned on, lists or references."""
        hashes = {file.sha256 for file in self.tuned_on.values()}
        return [file.path for role, file in files.items() if role in ("nbest", "ref") and file.sha256 in hashes]


def load_weights(path: Path | str) -> TunedWeights:
    """What `save` wrote. Anything else is an InputError that names the faulty field."""
    with open_binary(path) as file:
        try:
            record = parse_json(file.read())
        except (ValueError, RecursionError, OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path}: is not a weights file: {error}; make one with `trf tune`") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise InputError(f'{path}: is not a weights file (no "format": "{FORMAT}"); make one with `trf tune`')
    try:
        stored = record["weights"]
        lms = {str(name): _number(weight) for name, weight in stored["lms"].items()}
        penalties = stored.get("oov_penalties")
        if penalties is not None:
            penalties = {name: _number(penalties[name]) for name in lms}
        scale, word, unknown = (_number(stored[key]) for key in ("scale", "word_penalty", "oov_penalty"))
        weights = Weights(lms, scale, word, unknown, penalties)
        tuned_on = {role: from_record(FileContent, of) for role, of in record["tuned_on"].items()}
        dev, validated = from_record(Figures, record["dev"]), None
        curve = [(_number(scale), _number(wer)) for scale, wer in record["scale_curve"]]
        if stored := record["cross_validation"]:
            validated = CrossValidation(stored["folds"], from_record(Figures, stored))
        models = from_record(Mapping[str, str] | None, record.get("models"))
        tuned = TunedWeights(weights, str(record["mapping"]), dev, tuned_on, curve, validated, models)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"{path}: the field {error} is missing or wrong; tune again with `trf tune`") from error
    if not lms or not math.isclose(sum(lms.values()), 1, abs_tol=1e-6):
        raise InputError(f"{path}: the weights of the language models sum to {sum(lms.values())}, not 1; tune again")
    return tuned


def for_models(tuned: TunedWeights, given: Mapping[str, str | None], path: str) -> Weights:
    """The weights of the models that are given (name -> hash of the content, None for a score of the lists), under these names.

    Models are known by their content, wherever they lie; in a file of before hashes were kept, by their path.
    """
    weights = tuned.weights
    known = {name: (tuned.models or {}).get(name) or os.path.realpath(name) for name in weights.lms}
    own: dict[str, str] = {}  # the name given -> the name tuned
    for name, content in given.items():
        same = [old for old, is_ in known.items() if is_ in (content, os.path.realpath(name)) and old not in own.values()]
        if same:
            own[name] = name if name in same else same[0]
    if len(own) < len(given) or len(own) < len(known):
        raise InputError(
            f"{path}: tuned for {', '.join(weights.lms)}, not for {', '.join(given)}, which have another content; "
            "give the models that were tuned, or tune again"
        )
    named = weights.renamed({old: name for name, old in own.items()})
    return replace(named, lms={name: named.lms[name] for name in given})


def content_hash(path: Path | str) -> str:
    """sha256 of the content: the same for a file and its .gz, and for a directory of the same files."""
    if str(path) == "-":
        raise InputError("-: standard input cannot be read twice, and its content must be known; give a file")
    is_directory = not is_address(path) and Path(path).is_dir()
    digest = hashlib.sha256()
    for file in sorted(file for file in Path(path).iterdir() if file.is_file()) if is_directory else [path]:
        if is_directory:
            digest.update(f"{Path(file).name}\n".encode())
        with open_binary(file) as opened:
            try:
                while block := opened.read(1 << 20):
                    digest.update(block)
            except (EOFError, OSError, zlib.error) as error:
                raise InputError(f"{file}: the file is damaged or cannot be read on: {error}") from error
    return digest.hexdigest()


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} (not a finite number)")
    return float(value)
