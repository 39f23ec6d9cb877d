"""The model of a row: taken as it is if it is there, gone on with if it is unfinished, trained if it is missing."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trflm.errors import InputError
from trflm.experiment.data import files_of
from trflm.experiment.progress import Progress
from trflm.experiment.recipe import FieldRecipe, LSTMRecipe, NGramRecipe, Recipe, parse_recipe, read_recipe
from trflm.experiment.run import run_recipe
from trflm.experiment.store import read_config
from trflm.experiment.train import Done, is_over
from trflm.files.parse import parse_json
from trflm.files.reader import regular
from trflm.files.tensors import load_note
from trflm.learning.distil import DistilConfig
from trflm.reproduce.record import Curve

CURVES = ("dev_log_likelihood", "dev_nll", "kl", "dev_perplexity", "dev_loss", "loss")


class NotAvailable(Exception):
    """There is no such model, and none is to be made."""


@dataclass(frozen=True)
class Source:
    """Where models come from and go to."""

    recipes: Path
    out: Path
    overrides: tuple[str, ...]  # of every recipe: where the text is
    may_train: bool = True


def ensure_model(name: str, source: Source, progress: Progress, seed: int | None = None) -> Path:
    """The run directory of a trained model; with `seed`, of a further run of its recipe."""
    run = source.out / (name if seed is None else seed_name(name, seed))
    recipe_file = source.recipes / f"{name}.toml"
    if (run / "model.safetensors").exists():
        recipe = unfinished(run)
        if recipe is None or not source.may_train:
            return run
        progress.say(f"{run.name}: going on with {run}")
        run_recipe(recipe, run, resume=True, progress=progress)
        return run
    if not recipe_file.exists():
        raise NotAvailable(f"there is no recipe {recipe_file}")
    if not source.may_train:
        raise NotAvailable(f"not trained: there is no model in {run}")
    recipe = read_recipe(recipe_file, source.overrides)
    beside = [needed(path, source, progress) for path in (started_from(recipe), *teachers_of(recipe))]  # those first
    overrides = [*source.overrides, *([f"run.init={beside[0]}"] if beside[0] else [])]
    if beside[1:]:
        overrides.append(f"learner.teachers={json.dumps(beside[1:])}")
    if seed is not None:
        overrides.append(f"run.seed={seed}")
    recipe = read_recipe(recipe_file, overrides)
    progress.say(f"{run.name}: training into {run}")
    run_recipe(recipe, run, resume=True, progress=progress)
    return run


def seed_name(name: str, seed: int) -> str:
    return f"{name}-seed{seed}"


def needed(path: str, source: Source, progress: Progress) -> str:
    """A run that a recipe starts or learns from: where there is a recipe for it, trained beside the others."""
    name = Path(path).name
    if not name or not (source.recipes / f"{name}.toml").exists():
        return path
    return str(ensure_model(name, source, progress))


def started_from(recipe: Recipe) -> str:
    """The run that a recipe starts from, if it does."""
    return "" if isinstance(recipe, NGramRecipe) else recipe.run.init


def teachers_of(recipe: Recipe) -> tuple[str, ...]:
    """The runs that a recipe learns from."""
    return recipe.learner.teachers if isinstance(recipe, FieldRecipe) and isinstance(recipe.learner, DistilConfig) else ()


def check_recipes(names: Sequence[str], source: Source) -> None:
    """Every recipe that will be trained is read before anything is trained."""
    for name in names:
        path = source.recipes / f"{name}.toml"
        if path.exists() and not (source.out / name / "model.safetensors").exists():
            recipe = read_recipe(path, source.overrides)
            try:
                files_of(recipe.data.train)
            except InputError as error:
                raise InputError(f"{path}: {error}; is --data right?") from error
            if recipe.data.valid and not Path(recipe.data.valid).exists():
                raise InputError(f"{path}: {recipe.data.valid}: there is no such file; is --data right?")


def unfinished(run: Path) -> FieldRecipe | LSTMRecipe | None:
    """The recipe of a run that stopped before its end; None if it is done, or has nothing to go on from."""
    checkpoint = run / "training.safetensors"
    if not checkpoint.exists():
        return None
    config = read_config(run / "config.json")
    recipe = parse_recipe(config.get("recipe", {}), str(run / "config.json"))
    if isinstance(recipe, NGramRecipe):
        return None
    note = load_note(checkpoint)
    done = Done(note["step"], note["seconds"], note["dev_history"])
    if is_over(recipe.run, done) or last_epoch(run) >= recipe.run.epochs:
        return None
    return recipe


def last_epoch(run: Path) -> float:
    rows = metrics(run)
    return rows[-1]["epoch"] if rows else 0.0


def training_seconds(run: Path) -> float | None:
    """Of the run, and of the run beside it that it started from."""
    rows = metrics(run)
    if not rows:
        return None
    start = Path(read_config(run / "config.json").get("recipe", {}).get("run", {}).get("init", "")).name
    before = training_seconds(run.parent / start) if start and start != run.name else None
    return rows[-1].get("seconds", 0.0) + (before or 0.0)


def metrics(run: Path) -> list[dict]:
    """The lines of metrics.jsonl; none if a model came without it."""
    try:
        lines = regular(run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(parse_json(line))
        except ValueError as error:
            if number < len(lines):  # the last line may be one that a running training is writing
                raise InputError(f"{run / 'metrics.jsonl'}:{number}: not a line of metrics: {error}") from error
    return rows


def curves(run: Path) -> dict[str, Curve]:
    """quantity -> (epoch, value), the dev figures and the mean of a step's figures over each epoch; fig:plot of the paper."""
    found: dict[str, Curve] = {}
    rows = metrics(run)
    if len(rows) < 2:
        return {}
    for name in CURVES:
        by_epoch: dict[int, list[float]] = {}
        for row in rows:
            if name in row:
                by_epoch.setdefault(-int(-row["epoch"] // 1), []).append(row[name])
        if len(by_epoch) > 1:
            found[name] = tuple((epoch, sum(values) / len(values)) for epoch, values in sorted(by_epoch.items()))
    if "dev_log_likelihood" in found:
        found["dev_nll"] = tuple((epoch, -value) for epoch, value in found.pop("dev_log_likelihood"))
    return found
