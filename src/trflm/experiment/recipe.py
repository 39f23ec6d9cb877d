"""Recipes: what to train, on what, how. The kind of model says which sections a recipe has, and how a run of it begins."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from trflm import learning, potentials
from trflm.errors import InputError
from trflm.experiment.data import Data, DataConfig
from trflm.experiment.paths import first_found, keys_of, relocate
from trflm.experiment.shipped import find_recipe
from trflm.experiment.store import given_by, load_model, read_config
from trflm.experiment.toml import apply_override, choose, parse, read_tables
from trflm.kinds import KINDS, PathName, Start, one_of
from trflm.learning.context import Context, FieldLearnerConfig
from trflm.learning.loop import Learner
from trflm.learning.lstm import WindowsConfig
from trflm.learning.shards import WHOLE, Shards
from trflm.lms import noise
from trflm.lms.lstm import LSTMConfig, grown
from trflm.lms.ngram import KneserNeyConfig
from trflm.lms.noise import NoiseConfig
from trflm.lms.proposals.lstm import LSTMProposalConfig
from trflm.lms.reference import ReferenceConfig
from trflm.potentials.protocol import PotentialConfig
from trflm.ranges import Amount, Count, NotNegative, Seed, ThreadCount, Weight
from trflm.seeds import generator


@dataclass(frozen=True)
class RunConfig:
    """[run]: how long, how often, on what."""

    seed: Seed = 1  # everything random follows from it
    epochs: Count = 10  # how often the text is gone through, at most
    minutes: NotNegative = 0.0  # most training time; 0: no limit
    checkpoint_seconds: NotNegative = 60.0  # between two checkpoints; there is one more at the end of every epoch
    snapshots: Amount = 0  # how many of the last epochs' models to keep; their scores are averaged
    stop_window: Amount = 0  # epochs: stop when their mean dev criterion is not above that of the same number before; 0: never
    stop_gain: Weight = 0.0  # by how much it has to be above
    keep_best: bool = False  # save the model of the epoch with the best dev criterion instead of the last one
    init: PathName = ""  # start from the model of this run instead of random parameters; an LSTM also from a smaller one
    threads: ThreadCount = 0  # of the CPU; 0: torch's choice, or 1 for each process of torchrun
    device: str = "cpu"  # where to train, as torch names it; with torchrun, "cuda" is a GPU for each process
    shards: Amount = 0  # parts of a step, so many processes at most (docs/scale.md); 0: 8 with torchrun, else 1
    tensorboard: bool = False  # write metrics as TensorBoard events too, to RUN/tensorboard (extra `tensorboard`)
    exact: bool = True  # whether any number of processes come to the same parameters, bit for bit

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs = {self.epochs}: must be at least 1")
        for name in ("seed", "minutes", "checkpoint_seconds", "snapshots", "stop_window", "threads", "shards"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} = {getattr(self, name)}: must be a number from 0 up")
        if self.keep_best and self.snapshots:
            raise ValueError("keep_best keeps one model, snapshots those of the last epochs; leave out one of them")


@dataclass(frozen=True)
class EstimateConfig:
    """[run] of a model that is estimated at once. Nothing in it is random; the seed is there because every run has one."""

    seed: Seed = 1  # plays no part
    threads: ThreadCount = 0  # of the CPU; 0: torch's choice


@dataclass(frozen=True)
class FieldRecipe:
    """One training run of a random field, complete."""

    data: DataConfig
    model: PotentialConfig = one_of(lambda: potentials.POTENTIALS)
    reference: ReferenceConfig = field(default_factory=ReferenceConfig)
    proposal: LSTMProposalConfig = field(default_factory=LSTMProposalConfig)  # of AugSA; the noise of DNCE
    noise: NoiseConfig = one_of(lambda: noise.NOISES)  # of NCE
    learner: FieldLearnerConfig = one_of(lambda: learning.FIELD_LEARNERS)
    run: RunConfig = field(default_factory=RunConfig)

    def build(self, data: Data, fresh: bool, shards: Shards = WHOLE) -> Learner:
        """The learner at its start. Unless `fresh`, what only a start needs (word2vec, another run) is left out: a checkpoint
        follows."""
        given = given_by(Path(self.run.init), data.vocab) if fresh and self.run.init else None
        sections = (self.model, self.reference, self.proposal, self.noise)
        run, text = self.run, data.train.sentences
        context = Context(data.vocab, text, *sections, run.seed, run.device, fresh, given, load_model, shards)
        return self.learner.build(context)


@dataclass(frozen=True)
class LSTMRecipe:
    """One training run of an LSTM, complete."""

    data: DataConfig
    model: LSTMConfig = one_of(lambda: (LSTMConfig,))
    learner: WindowsConfig = one_of(lambda: learning.LSTM_LEARNERS)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        if self.run.snapshots:
            raise ValueError("run.snapshots: scores are averaged over the snapshots of a random field only; leave it out")
        if 0 < self.learner.cosine_epochs < self.run.epochs:
            raise ValueError(
                f"learner.cosine_epochs = {self.learner.cosine_epochs}: nothing is learned after them; "
                f"make it run.epochs = {self.run.epochs}, or more"
            )

    def build(self, data: Data, fresh: bool, shards: Shards = WHOLE) -> Learner:
        """The learner at its start: see `FieldRecipe.build`. The LSTM of another run may be smaller; it is grown then."""
        lstm = self.model.build(Start(data.vocab, rng=generator(self.run.seed, "init")))
        if fresh and self.run.init:
            given_by(Path(self.run.init), data.vocab).fill(lstm, "[model]", "lstm", fitted=lambda small: grown(small, lstm))
        return self.learner.build(lstm.to(self.run.device), data.train.sentences, shards)


@dataclass(frozen=True)
class NGramRecipe:
    """The estimation of an n-gram model, complete."""

    data: DataConfig
    model: KneserNeyConfig = one_of(lambda: (KneserNeyConfig,))
    run: EstimateConfig = field(default_factory=EstimateConfig)


Recipe = FieldRecipe | LSTMRecipe | NGramRecipe
RECIPES = (FieldRecipe, LSTMRecipe, NGramRecipe)


def read_recipe(path: Path | str, overrides: Iterable[str] = ()) -> Recipe:
    """The recipe of a TOML file, or of the name of a shipped one, with `section.key=value` overrides applied in order."""
    file, overrides = find_recipe(path), tuple(overrides)
    recipe = _with_overrides(read_tables(file), overrides, str(file))
    return relocate(recipe, first_found(file.parent), keep=keys_of(overrides))


def recipe_of_run(run: Path, overrides: Iterable[str] = ()) -> Recipe:
    """The recipe that a run was started with; its paths lead from here, or from where it was started."""
    file, overrides = run / "config.json", tuple(overrides)
    config = read_config(file)
    tables = config.get("recipe")
    if not isinstance(tables, dict):
        raise InputError(f"{file}: there is no recipe in it; is {run} a run that trf train made?")
    recipe = _with_overrides(tables, overrides, str(file))
    return relocate(recipe, first_found(Path(), Path(str(config.get("directory", "")))), keep=keys_of(overrides))


def _with_overrides(tables: dict[str, Any], overrides: Iterable[str], where: str) -> Recipe:
    for override in overrides:
        apply_override(tables, override)
    return parse_recipe(tables, where)


def parse_recipe(tables: dict[str, Any], where: str) -> Recipe:
    """The recipe in these tables; their model says of which kind it is."""
    recipe_of = {kind: recipe for recipe in RECIPES for kind in models_of(recipe)}
    return parse(recipe_of[choose(tuple(recipe_of), tables.get("model", {}), where, "model")], tables, where)


def models_of(recipe: type) -> tuple[type, ...]:
    """The kinds of model that a recipe may have."""
    return next(f.metadata[KINDS]() for f in fields(recipe) if f.name == "model")
