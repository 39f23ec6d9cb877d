"""A run: how training went, which epoch was best and by what, and what the model says. An n-gram model is estimated at once:
its page has no curves."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from trflm.errors import InputError
from trflm.experiment.store import load_model, read_config
from trflm.language_model import LanguageModel
from trflm.look.charts import line_chart
from trflm.look.page import duration, figures, heading, page, section, settings
from trflm.report.quantities import NOT_CURVES, Row, quantity, read_metrics, title


@dataclass(frozen=True, eq=False)
class Run:
    """What a run directory says of itself."""

    path: Path
    config: dict[str, Any]
    rows: list[Row]

    @classmethod
    def read(cls, path: Path) -> "Run":
        config = read_config(path / "config.json")
        return cls(path, config, read_metrics(path / "metrics.jsonl"))

    @property
    def name(self) -> str:
        return self.path.resolve().name

    def recipe(self, section: str, key: str = "kind", default: Any = "") -> Any:
        """A value of the recipe; the default also where config.json is not as we write it."""
        recipe = self.config.get("recipe")
        values = recipe.get(section) if isinstance(recipe, dict) else None
        return values.get(key, default) if isinstance(values, dict) else default

    @property
    def kind(self) -> str:
        learner = self.recipe("learner")
        return f"{self.recipe('model')}" + (f" trained by {learner}" if learner else "")

    @property
    def seconds(self) -> float:
        return float(self.rows[-1].get("seconds", 0.0))

    @cached_property
    def quantities(self) -> list[str]:
        """What is recorded, that of dev text first."""
        names = [name for name in dict.fromkeys(key for row in self.rows for key in row) if name not in NOT_CURVES]
        return sorted(names, key=lambda name: not self.is_of_dev(name))

    def is_of_dev(self, name: str) -> bool:
        return name.startswith("dev_") or name not in self.rows[0]

    def curve(self, name: str, across: str = "epoch", unit: float = 1.0) -> list[tuple[float, float]]:
        return [(row[across] / unit, row[name]) for row in self.rows if name in row and across in row]

    @cached_property
    def best(self) -> Row | None:
        """The evaluation with the highest criterion, the first of equals."""
        measured = [row for row in self.rows if "criterion" in row]
        return max(measured, key=lambda row: row["criterion"]) if measured else None

    @property
    def criterion(self) -> str:
        """The quantity that is the criterion; empty where it is none that is recorded."""
        if self.best is None:
            return ""
        same = [name for name in self.quantities if self.best.get(name) == self.best["criterion"]]
        return same[0] if same else ""

    @cached_property
    def epoch_seconds(self) -> list[tuple[float, float]]:
        """(epoch, seconds that it took), of whole epochs."""
        ends = [(row["epoch"], row["seconds"]) for row in self.rows if row["epoch"].is_integer() and "seconds" in row]
        starts = [(0.0, 0.0), *ends]
        return [(end, t - s) for (begin, s), (end, t) in zip(starts, ends, strict=False) if end - begin == 1 and t >= s]


def run_page(path: Path, n_samples: int = 5) -> str:
    """The page of one run directory."""
    run = Run.read(path)
    model = model_of(run)
    return page(
        run.name,
        heading(run.name, about(run)),
        figures(of_run(run, model)),
        section("The criterion", criterion_chart(run), note=criterion_note(run)),
        section("Dev text", grid(charts(run, dev=True))),
        section("Training", grid(charts(run, dev=False), epoch_chart([run]))),
        samples_of(model, n_samples) if n_samples else "",
        section("Made by", settings("all settings", run.config)),
    )


def about(run: Run) -> str:
    text, made = run.config.get("text"), [str(run.config[key]) for key in ("machine", "commit") if run.config.get(key)]
    parts = [run.kind]
    if isinstance(text, dict) and isinstance(text.get("words"), int) and isinstance(text.get("vocabulary"), int):
        parts.append(f"{text['words']:,} words of text, vocabulary of {text['vocabulary']:,}")
    return " · ".join([*parts, *made])


def of_run(run: Run, model: LanguageModel | str) -> list[tuple[str, str, str]]:
    """The figures at the head of the page."""
    last = run.rows[-1]
    size = [] if isinstance(model, str) else [("parameters", f"{model.n_parameters():,}", "")]
    if len(run.rows) == 1:  # estimated at once
        found = [(title(name), f"{last[name]:.2f}", "") for name in run.quantities]
        return [*found, *size, ("estimated in", duration(run.seconds), "")]
    found = [("steps", f"{last['step']:,}", f"epoch {last['epoch']:.4g} of {run.recipe('run', 'epochs', '?')}")]
    if run.best is not None:
        found.append(("best epoch", f"{run.best['epoch']:.4g}", f"criterion {run.best['criterion']:.4g}"))
        measured = [name for name in run.quantities if name.startswith("dev_") and name in run.best]
        found += [(title(name) + " there", f"{run.best[name]:.4g}", quantity(name).unit) for name in measured[:3]]
    found += [*size, ("trained for", duration(run.seconds), "")]
    if run.epoch_seconds:
        found.append(("an epoch takes", duration(median(seconds for _, seconds in run.epoch_seconds)), "median"))
    return found


def criterion_note(run: Run) -> str:
    """What it is, and which model was kept by it."""
    name = run.criterion
    if name:
        what = f"The criterion is the {title(name)}. {quantity(name).meaning}"
    elif run.best is not None and "dev_perplexity" in run.best:
        what = "The criterion is the mean log probability of a symbol of dev text, minus the log of its perplexity."
    else:
        what = "Measured on dev text after every epoch."
    if run.recipe("run", "keep_best", False):
        kept = "The stored model is that of the best epoch."
    elif count := run.recipe("run", "snapshots", 0):
        kept = f"Scores are the mean of the models of the last {count} epochs."
    else:
        kept = "The stored model is that of the last step."
    return f"{what} Higher is better. {kept}"


def criterion_chart(run: Run) -> str:
    if run.best is None or len(run.curve("criterion")) < 2:
        return ""
    unit = quantity(run.criterion).unit if run.criterion else "nats a symbol"
    best = run.best["epoch"]
    return grid([line_chart("criterion", {"": run.curve("criterion")}, x_name="epoch", y_name=unit, best=best)])


def charts(run: Run, dev: bool) -> list[str]:
    """Of dev text, or of training, what is not the criterion itself; a single value is no curve."""
    return [
        line_chart(
            title(name), {"": points}, x_name="epoch", y_name=quantity(name).unit, note=quantity(name).meaning,
            best=run.best["epoch"] if dev and run.best is not None else None,
        )
        for name in run.quantities
        if run.is_of_dev(name) == dev and name != run.criterion and len(points := run.curve(name)) > 1
    ]  # fmt: skip


def epoch_chart(runs: Sequence[Run], names: Sequence[str] = ("",)) -> list[str]:
    """Seconds of each epoch; none for runs of one."""
    lines = {name: run.epoch_seconds if len(run.epoch_seconds) > 1 else [] for name, run in zip(names, runs, strict=True)}
    return [line_chart("time of an epoch", lines, x_name="epoch", y_name="seconds")]


def grid(*charts: Sequence[str]) -> str:
    inside = "".join(chart for some in charts for chart in some)
    return f'<div class="grid">{inside}</div>' if inside else ""


def model_of(run: Run) -> LanguageModel | str:
    """The stored model, or why there is none yet."""
    try:
        return load_model(run.path)
    except InputError as error:
        return str(error)


def samples_of(model: LanguageModel | str, n: int, name: str = "") -> str:
    """Sentences that the model draws, by the seed of `trf sample`."""
    heading = f"What it says{': ' + name if name else ''}"
    if isinstance(model, str):
        return section(heading, f'<p class="note">{html.escape(model)}</p>')
    items = "".join(f"<li>{html.escape(sentence) or '(no words)'}</li>" for sentence in model.sample(n, seed=1))
    return section(heading, f'<ol class="samples">{items}</ol>', note=f"{n} sentences drawn from the model: trf sample -n {n}.")
