"""tables.toml: which rows a table has, on which text and lists. Paths in it are relative to the data directory."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from trflm.errors import InputError
from trflm.evaluation.nbest import ACOUSTIC
from trflm.evaluation.second_pass.files import ListFiles
from trflm.experiment.recipe import parse
from trflm.experiment.shipped import TABLES
from trflm.files.parse import parse_toml
from trflm.files.reader import read_whole
from trflm.ranges import Seed

FILE = TABLES


@dataclass(frozen=True)
class PlannedLists:
    """N-best lists in Kaldi's form, with their acoustic scores and what was said."""

    nbest: str = ""
    acoustic: str = ""
    ref: str = ""
    costs: bool = False  # the acoustic scores are costs

    def __post_init__(self) -> None:
        if not (self.nbest and self.acoustic and self.ref):
            raise ValueError("nbest, acoustic and ref are needed")

    def files(self, data: Path) -> ListFiles:
        """In the data directory."""
        return ListFiles(
            data / self.nbest, {ACOUSTIC: data / self.acoustic}, (ACOUSTIC,) if self.costs else (), data / self.ref
        )


@dataclass(frozen=True)
class Text:
    """The text that models are trained and measured on."""

    train: str = ""
    valid: str = ""
    test: str = ""
    mapping: str = "none"  # how recognised words become the models' words

    def __post_init__(self) -> None:
        if not (self.train and self.valid and self.test):
            raise ValueError("train, valid and test are needed")


@dataclass(frozen=True)
class Paper:
    """What a paper printed in this row."""

    perplexity: str = ""
    wer: str = ""
    parameters: str = ""
    training: str = ""
    rescoring: str = ""


@dataclass(frozen=True)
class Row:
    """One model, by the name of its recipe, or several that are combined."""

    name: str = ""
    label: str = ""
    models: tuple[str, ...] = ()  # of a combined row
    seeds: tuple[Seed, ...] = ()  # of further runs of the same recipe, NAME-seedN, to see how much is chance
    paper: Paper = field(default_factory=Paper)

    def __post_init__(self) -> None:
        if not self.name or not self.label:
            raise ValueError("every row has a name and a label")
        if self.seeds and self.models:
            raise ValueError("seeds are of one recipe, not of several models")


@dataclass(frozen=True)
class Plan:
    """The whole table."""

    title: str
    text: Text
    dev: PlannedLists
    test: PlannedLists
    row: tuple[Row, ...]
    about: str = ""
    baseline: str = ""  # the row that others are compared with
    rival: str = ""  # a second such row
    strategies: tuple[str, ...] = ()  # LSTM rows to rescore in the three ways of the paper: preserve, reset, shuffle

    def __post_init__(self) -> None:
        names = [row.name for row in self.row]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"row {name!r} is there twice")
        models = (model for row in self.row for model in row.models)
        for wanted in [*models, *self.strategies, *filter(None, (self.baseline, self.rival))]:
            if wanted not in names:
                raise ValueError(f"{wanted!r} is not the name of a row; the rows are {', '.join(names)}")


def read_plan(directory: Path) -> Plan:
    """The plan of a directory of recipes."""
    path = directory / FILE
    try:
        tables = parse_toml(read_whole(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; give a directory of recipes with a {FILE}") from error
    except ValueError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from error
    for key in ("title", "row"):
        if key not in tables:
            raise InputError(f"{path}: {key} is missing")
    return parse(Plan, tables, str(path))


def choose_rows(plan: Plan, names: str) -> list[Row]:
    """The rows named in a list separated by commas (all if empty). `-NAME` leaves a row out."""
    chosen = _chosen(plan, names, "--rows")
    return [row for row in plan.row if row.name in chosen]


def only_strategies_of(plan: Plan, names: str) -> Plan:
    """The plan with the three ways of rescoring for these of its rows alone, named in the same way."""
    chosen = _chosen(plan, names, "--strategies")
    return replace(plan, strategies=tuple(name for name in plan.strategies if name in chosen))


def _chosen(plan: Plan, names: str, option: str) -> set[str]:
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = [row.name for row in plan.row]
    for name in wanted:
        if name.removeprefix("-") not in known:
            raise InputError(f"{option} {name}: there is no such row; the rows are {', '.join(known)}")
    left_out = {name[1:] for name in wanted if name.startswith("-")}
    return ({name for name in wanted if not name.startswith("-")} or set(known)) - left_out
