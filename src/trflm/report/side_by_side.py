"""Several runs on one page: how far each came, what differs between their recipes, their curves in one chart each."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from trflm.look.charts import line_chart
from trflm.look.page import duration, flat, heading, page, section, table
from trflm.report.quantities import LOSS, quantity, title
from trflm.report.training import Run, criterion_note, epoch_chart, grid, model_of, samples_of

MISSING = "–"
MINUTE, HOUR = 60.0, 3600.0


def runs_page(paths: Sequence[Path], n_samples: int = 5) -> str:
    runs = [Run.read(path) for path in paths]
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths]
    return page(
        ", ".join(names),
        heading("Runs side by side", ", ".join(names)),
        section("How far they came", of_runs(runs, names)),
        section("The criterion", criterion_charts(runs, names), note=criteria_note(runs, names)),
        section("What they recorded", grid(shared_charts(runs, names), epoch_chart(runs, names))),
        section("What differs between them", differences(runs, names)),
        *(samples_of(model_of(run), n_samples, name) for run, name in zip(runs, names, strict=True) if n_samples),
    )


def of_runs(runs: Sequence[Run], names: Sequence[str]) -> str:
    head = [
        "run",
        "model",
        "steps",
        "epoch",
        "best epoch",
        "criterion there",
        "dev perplexity there",
        "trained for",
        "an epoch",
    ]
    rows = []
    for run, name in zip(runs, names, strict=True):
        last, best = run.rows[-1], run.best or {}
        perplexity = best.get("dev_perplexity", last.get("dev_perplexity"))
        rows.append([
            name, run.kind, f"{last['step']:,}", f"{last['epoch']:.4g}",
            *(f"{best[key]:.4g}" if key in best else "–" for key in ("epoch", "criterion")),
            "–" if perplexity is None else f"{perplexity:.2f}", duration(run.seconds),
            duration(median(seconds for _, seconds in run.epoch_seconds)) if run.epoch_seconds else "–",
        ])  # fmt: skip
    return table(head, rows, range(2, len(head)), "how far each run came")


def criteria_note(runs: Sequence[Run], names: Sequence[str]) -> str:
    """What each is measured by; runs of one criterion are told of together."""
    by_note: dict[str, list[str]] = {}
    for run, name in zip(runs, names, strict=True):
        if run.best is not None:
            by_note.setdefault(criterion_note(run), []).append(name)
    if len(by_note) < 2:
        return "".join(by_note)
    said = " ".join(f"{', '.join(of)}: {note}" for note, of in by_note.items())
    return f"{said} Criteria of different kinds cannot be compared with each other."


def criterion_charts(runs: Sequence[Run], names: Sequence[str]) -> str:
    """One for each kind of criterion, by epochs and by hours."""
    every = list(zip(runs, names, strict=True))
    by_kind = grouped([run for run in runs if len(run.curve("criterion")) > 1], lambda run: run.criterion)
    charts = []
    for kind, some in by_kind.items():
        unit = quantity(kind).unit if kind else "nats a symbol"
        short = max(run.seconds for run in some) < 2 * HOUR
        time = ("seconds", "minutes of training", MINUTE) if short else ("seconds", "hours of training", HOUR)
        for across, x_name, size in (("epoch", "epoch", 1.0), time):
            lines = {name: run.curve("criterion", across, size) if run in some else [] for run, name in every}
            what = title(kind) if kind else "log probability of dev text"
            charts.append(line_chart(f"{what} by {x_name.split()[0]}", lines, x_name=x_name, y_name=unit))
    return grid(charts)


def shared_charts(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    """What at least two of the runs recorded, but for the criteria. Losses are compared within a kind of learner only."""
    shown = {run.criterion for run in runs}
    every = dict.fromkeys(name for run in runs for name in run.quantities if name not in shown)
    charts = []
    for quantity_name in every:
        about, is_loss = quantity(quantity_name), quantity(quantity_name).unit == LOSS
        recorded = [run for run in runs if len(run.curve(quantity_name)) > 1]
        for learner, some in grouped(recorded, lambda run, by=is_loss: str(run.recipe("learner")) if by else "").items():
            if len(some) > 1:
                lines = {name: run.curve(quantity_name) if run in some else [] for run, name in zip(runs, names, strict=True)}
                heading = title(quantity_name) + (f" of {learner}" if learner else "")
                charts.append(line_chart(heading, lines, x_name="epoch", y_name=about.unit, note=about.meaning))
    return charts


def grouped(runs: Sequence[Run], key: Callable[[Run], str]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    return found


def differences(runs: Sequence[Run], names: Sequence[str]) -> str:
    """The settings in which those that have them are not all equal."""
    every = [{key: str(value) for key, value in flat(run.config).items()} for run in runs]
    keys = dict.fromkeys(key for settings in every for key in settings)
    rows = [[key, *(settings.get(key, MISSING) for settings in every)] for key in keys]
    rows = [row for row in rows if len(set(row[1:]) - {MISSING}) > 1]
    if not rows:
        return '<p class="note">Nothing that more than one of them has: recipes, texts and machines are the same.</p>'
    return table(["key", *names], rows, name="settings that differ")
