"""Recipes: TOML files read into typed, frozen dataclasses. An unknown or mistyped key is an error that names the nearest one.

A section that can hold several kinds of thing says which by `kind = "..."`; the kinds and their keys are the dataclasses
listed here. The kind of model says which sections a recipe has: `FieldRecipe`, `LSTMRecipe` or `NGramRecipe`.
"""

import dataclasses
import difflib
import math
import tomllib
import types
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from trflm.errors import InputError
from trflm.learning.augsa import AugSAConfig
from trflm.learning.dnce import DNCEConfig
from trflm.learning.lstm import AdamConfig, SGDConfig
from trflm.learning.nce import NCEConfig
from trflm.learning.word_nce import WordNCEConfig
from trflm.lms.lstm import LSTMConfig
from trflm.lms.ngram import KneserNeyConfig
from trflm.lms.proposals.lstm import LSTMProposalConfig
from trflm.potentials.blstm import BLSTMConfig
from trflm.potentials.cnn.model import CNNConfig
from trflm.potentials.cnn_blstm import CNNBLSTMConfig


@dataclass(frozen=True)
class DataConfig:
    """[data]: the text and the vocabulary."""

    train: str = ""
    valid: str = ""  # dev text; none if empty
    vocab: str = ""  # a word list; if empty the vocabulary is made from train
    vocab_size: int = 0  # keep the most frequent words, <unk> included; 0: all
    min_count: int = 1  # keep words seen at least so often
    max_length: int = 0  # longer sentences are left out of training; 0: the longest there is

    def __post_init__(self) -> None:
        if not self.train:
            raise ValueError("train is missing: give the training text, for instance --set data.train=FILE")
        if min(self.vocab_size, self.max_length) < 0 or self.min_count < 1:
            raise ValueError("vocab_size and max_length must not be negative, min_count must be at least 1")
        if self.vocab and (self.vocab_size or self.min_count != 1):
            raise ValueError("vocab is a fixed word list: leave out vocab_size and min_count")


@dataclass(frozen=True)
class CNNModel(CNNConfig):
    """[model] kind = "cnn": a random field with the paper's CNN potential."""

    kind: Literal["cnn"] = "cnn"
    word2vec: bool = False  # start the embedding from word2vec vectors of the training text


@dataclass(frozen=True)
class BLSTMModel(BLSTMConfig):
    """[model] kind = "blstm": a random field with a bidirectional LSTM potential."""

    kind: Literal["blstm"] = "blstm"
    word2vec: bool = False


@dataclass(frozen=True)
class CNNBLSTMModel(CNNBLSTMConfig):
    """[model] kind = "cnn-blstm": a random field whose bidirectional LSTM reads the features of a CNN."""

    kind: Literal["cnn-blstm"] = "cnn-blstm"
    word2vec: bool = False


OneModel = CNNModel | BLSTMModel | CNNBLSTMModel


@dataclass(frozen=True)
class MixedModel:
    """[model] kind = "mixed": a random field with the sum of several potentials, a section [[model.parts]] for each."""

    parts: tuple[OneModel, ...] = ()
    kind: Literal["mixed"] = "mixed"

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError('parts is missing: give a section [[model.parts]] with its kind = "..." for each potential')


@dataclass(frozen=True)
class LSTMModel(LSTMConfig):
    """[model] kind = "lstm": a left-to-right LSTM."""

    kind: Literal["lstm"] = "lstm"


@dataclass(frozen=True)
class NGramModel(KneserNeyConfig):
    """[model] kind = "ngram": modified Kneser-Ney."""

    kind: Literal["ngram"] = "ngram"


PotentialModel = OneModel | MixedModel  # random fields
Model = PotentialModel | LSTMModel | NGramModel


@dataclass(frozen=True)
class LSTMProposalSection(LSTMProposalConfig):
    """[proposal] kind = "lstm": the auxiliary distribution of AugSA + JSA.

    The classes of its output are of equal size by frequency (the fastest), or by bigram exchange, or from a file.
    """

    kind: Literal["lstm"] = "lstm"
    exchange: bool = False  # classes of words that behave alike, by bigram exchange on the training text
    classes_file: str = ""  # lines `word class`; then `classes` plays no part

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exchange and (self.classes_file or not self.classes):
            raise ValueError("exchange makes `classes` classes, at least 1, and no classes_file; leave out one of them")


@dataclass(frozen=True)
class ReferenceSection:
    """[reference]: the model that a random field tilts, p_ref(x) exp(phi(x)); a Kneser-Ney model of the training text."""

    order: int = 0  # 0: none; 1: unigram; 5: the usual
    folds: int = 0  # of deleted estimates in training by nce and dnce (see learning/deleted.py); 0: none

    def __post_init__(self) -> None:
        if self.order < 0:
            raise ValueError("order must not be negative; 0 is no reference")
        if self.folds < 0 or self.folds == 1 or (self.folds and not self.order):
            raise ValueError("folds must be 0, or at least 2 with an order of at least 1")


@dataclass(frozen=True)
class UnigramNoise:
    """[noise] kind = "unigram": words drawn independently, lengths from pi."""

    kind: Literal["unigram"] = "unigram"


@dataclass(frozen=True)
class NGramNoise:
    """[noise] kind = "ngram": a Kneser-Ney model of the training text."""

    kind: Literal["ngram"] = "ngram"
    order: int = 5

    def __post_init__(self) -> None:
        if self.order < 1:
            raise ValueError("order must be at least 1")


@dataclass(frozen=True)
class TrainedNoise:
    """[noise] kind = "trained": an n-gram or LSTM model that was trained before, on the same vocabulary."""

    kind: Literal["trained"] = "trained"
    model: str = ""  # its run directory, or an ARPA file

    def __post_init__(self) -> None:
        if not self.model:
            raise ValueError('model is missing: give the run of an n-gram or LSTM model, as in model = "runs/lstm-200"')


@dataclass(frozen=True)
class AugSALearner(AugSAConfig):
    """[learner] kind = "augsa"."""

    kind: Literal["augsa"] = "augsa"


@dataclass(frozen=True)
class NCELearner(NCEConfig):
    """[learner] kind = "nce"."""

    kind: Literal["nce"] = "nce"


@dataclass(frozen=True)
class DNCELearner(DNCEConfig):
    """[learner] kind = "dnce": the noise is the LSTM of [proposal]."""

    kind: Literal["dnce"] = "dnce"


@dataclass(frozen=True)
class WordNCELearner(WordNCEConfig):
    """[learner] kind = "word-nce": a start for a BLSTM potential."""

    kind: Literal["word-nce"] = "word-nce"


@dataclass(frozen=True)
class SGDLearner(SGDConfig):
    """[learner] kind = "sgd", for an LSTM."""

    kind: Literal["sgd"] = "sgd"


@dataclass(frozen=True)
class AdamLearner(AdamConfig):
    """[learner] kind = "adam", for an LSTM."""

    kind: Literal["adam"] = "adam"


@dataclass(frozen=True)
class RunConfig:
    """[run]: how long, how often, on what."""

    seed: int = 1
    epochs: int = 10
    minutes: float = 0.0  # stop after so much training time; 0: no limit
    checkpoint_seconds: float = 60.0  # write a checkpoint so often, and at the end of every epoch
    snapshots: int = 0  # keep the models of so many last epochs; their scores are averaged
    stop_window: int = 0  # stop when the mean dev criterion of so many epochs is not above that of as many before; 0: never
    stop_gain: float = 0.0  # by how much it has to be above
    keep_best: bool = False  # save the model of the epoch with the best dev criterion instead of the last one
    init: str = ""  # start from the model of this run instead of random parameters
    threads: int = 0  # 0: torch's choice
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs = {self.epochs}: must be at least 1")
        for name in ("seed", "minutes", "checkpoint_seconds", "snapshots", "stop_window", "threads"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} = {getattr(self, name)}: must be a number from 0 up")
        if self.keep_best and self.snapshots:
            raise ValueError("keep_best keeps one model, snapshots those of the last epochs; leave out one of them")


@dataclass(frozen=True)
class EstimateConfig:
    """[run] of a model that is estimated at once. Nothing in it is random; the seed is there because every run has one."""

    seed: int = 1
    threads: int = 0  # 0: torch's choice


@dataclass(frozen=True)
class FieldRecipe:
    """One training run of a random field, complete."""

    data: DataConfig
    model: PotentialModel = field(default_factory=CNNModel)
    reference: ReferenceSection = field(default_factory=ReferenceSection)
    proposal: LSTMProposalSection = field(default_factory=LSTMProposalSection)  # of AugSA; the noise of DNCE
    noise: UnigramNoise | NGramNoise | TrainedNoise = field(default_factory=UnigramNoise)  # of NCE
    learner: AugSALearner | NCELearner | DNCELearner | WordNCELearner = field(default_factory=AugSALearner)
    run: RunConfig = field(default_factory=RunConfig)


@dataclass(frozen=True)
class LSTMRecipe:
    """One training run of an LSTM, complete."""

    data: DataConfig
    model: LSTMModel = field(default_factory=LSTMModel)
    learner: SGDLearner | AdamLearner = field(default_factory=SGDLearner)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        if self.run.snapshots:
            raise ValueError("run.snapshots: scores are averaged over the snapshots of a random field only; leave it out")
        if 0 < self.learner.cosine_epochs < self.run.epochs:
            raise ValueError(
                f"learner.cosine_epochs = {self.learner.cosine_epochs}: nothing is learned after them; "
                f"make it run.epochs = {self.run.epochs}, or more"
            )


@dataclass(frozen=True)
class NGramRecipe:
    """The estimation of an n-gram model, complete."""

    data: DataConfig
    model: NGramModel = field(default_factory=NGramModel)
    run: EstimateConfig = field(default_factory=EstimateConfig)


Recipe = FieldRecipe | LSTMRecipe | NGramRecipe
RECIPE_OF = {**dict.fromkeys(get_args(PotentialModel), FieldRecipe), LSTMModel: LSTMRecipe, NGramModel: NGramRecipe}


def read_recipe(path: Path | str, overrides: Iterable[str] = ()) -> Recipe:
    """The recipe of a TOML file, with `section.key=value` overrides applied in order."""
    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte 0x{error.object[error.start]:02x} at offset {error.start} is not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from error
    for override in overrides:
        apply_override(tables, override)
    return parse_recipe(tables, str(path))


def parse_recipe(tables: dict[str, Any], where: str) -> Recipe:
    """The recipe in these tables; their model says of which kind it is."""
    kind = choose(get_args(Model), tables.get("model", {}), where, "model")
    return parse(RECIPE_OF[kind], tables, where)


def apply_override(tables: dict[str, Any], override: str) -> None:
    """Set `section.key=value`; the value is read as TOML, or as a plain string if it is not TOML."""
    name, equals, text = override.partition("=")
    *sections, key = name.strip().split(".")
    if not equals or not sections or not key:
        raise InputError(f"--set {override}: write it as section.key=value, for instance learner.batch=200")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    for section in sections:
        tables = tables.setdefault(section, {})
        if not isinstance(tables, dict):
            raise InputError(f"--set {override}: {section} is a value, not a section")
    tables[key] = value


def parse(kind: Any, value: Any, where: str, name: str = "") -> Any:
    """`value` as an instance of `kind`: a dataclass (from a table), a union of dataclasses (by their `kind`), a tuple,
    or a plain type."""
    if get_origin(kind) in (Union, types.UnionType):
        return parse(choose(get_args(kind), value, where, name), value, where, name)
    if dataclasses.is_dataclass(kind):
        return parse_table(kind, value, where, name)
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise InputError(f"{where}: {name} = {value!r}: expected a list")
        return tuple(parse(get_args(kind)[0], item, where, f"{name}[{i}]") for i, item in enumerate(value))
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise InputError(f"{where}: {name} = {value!r}: expected {' or '.join(map(repr, get_args(kind)))}")
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise InputError(f"{where}: {name} = {value!r}: expected {NAMES[kind]}")
    return value


NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a string in quotes"}


def parse_table(kind: Any, table: Any, where: str, name: str) -> Any:
    if not isinstance(table, dict):
        raise InputError(f"{where}: {name} = {table!r}: expected a section [{name}]")
    hints = get_type_hints(kind)
    known = [f.name for f in dataclasses.fields(kind)]
    for key in table:
        if key not in known:
            full = f"{name}.{key}" if name else f"[{key}]"
            close = difflib.get_close_matches(key, known, n=1, cutoff=0.4)
            remedy = f"did you mean {close[0]}?" if close else f"the keys here are {', '.join(known)}"
            raise InputError(f"{where}: {full}: unknown {'key' if name else 'section'}; {remedy}")
    for f in dataclasses.fields(kind):
        if f.name not in table and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            table = {**table, f.name: {}}  # a required section: its own check says what is missing in it
    inner = f"{name}." if name else ""
    values = {key: parse(hints[key], item, where, inner + key) for key, item in table.items()}
    try:
        return kind(**values)
    except ValueError as error:
        raise InputError(f"{where}: {f'[{name}] ' if name else ''}{error}") from error


def choose(kinds: tuple[Any, ...], table: Any, where: str, name: str) -> Any:
    """The dataclass of a union whose `kind` the table names; the first if it names none."""
    by_kind = {get_args(get_type_hints(kind)["kind"])[0]: kind for kind in kinds}
    if not isinstance(table, dict):
        raise InputError(f"{where}: {name} = {table!r}: expected a section [{name}]")
    wanted = table.get("kind", next(iter(by_kind)))
    if not isinstance(wanted, str) or wanted not in by_kind:
        close = difflib.get_close_matches(str(wanted), by_kind, n=1, cutoff=0.0)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise InputError(f"{where}: {name}.kind = {wanted!r}: expected one of {', '.join(by_kind)}{hint}")
    return by_kind[wanted]
