"""`trf reproduce`: the tables of a directory of recipes, from real runs."""

import sys
from pathlib import Path
from typing import Annotated

import tyro

from trflm.cli.options import BF16, Quiet, Threads, set_up
from trflm.errors import TrainingError
from trflm.ranges import NotNegative, Seed


def reproduce(
    recipes: Annotated[
        Path,
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="RECIPE_DIR", help="A directory of recipes with a tables.toml, or the name of a shipped one: ptb."
        ),
    ],
    *,
    data: Annotated[Path, tyro.conf.arg(metavar="DIR", help="The texts and lists that tables.toml names.")],
    out: Annotated[Path, tyro.conf.arg(metavar="DIR", help="Models (DIR/NAME), results and report; what is there is used.")],
    rows: Annotated[str, tyro.conf.arg(metavar="A,B", help="Only these rows; --rows=-A leaves one out.")] = "",
    strategies: Annotated[
        str,
        tyro.conf.arg(metavar="A,B", help="Only these LSTM rows are rescored in all three ways of table 1; it takes long."),
    ] = "",
    no_train: Annotated[bool, tyro.conf.arg(help="Use only models that are there, as they are.")] = False,
    perplexity_minutes: Annotated[
        NotNegative, tyro.conf.arg(metavar="X", help="For the interval of each random field's perplexity; 0: none.")
    ] = 20.0,
    bf16: BF16 = False,
    seed: Annotated[Seed, tyro.conf.arg(metavar="S", help="Of bootstrap intervals and shuffling.")] = 1,
    threads: Threads = 0,
    quiet: Quiet = False,
) -> None:
    """Make the tables of a paper from real runs, row by row; each row trains only what is missing, and goes on if interrupted.

    A run directory DIR/NAME that is complete is used as it is. Results: results.json, results.md, report.html in DIR.
    """
    set_up(threads)
    from trflm.experiment.progress import progress
    from trflm.experiment.shipped import find_directory
    from trflm.experiment.train import Interrupted
    from trflm.reproduce.markdown import markdown
    from trflm.reproduce.models import Source
    from trflm.reproduce.plan import choose_rows, only_strategies_of, read_plan
    from trflm.reproduce.results import reproduce as make

    recipes = find_directory(recipes)
    plan = read_plan(recipes)
    chosen = choose_rows(plan, rows)
    if strategies:
        plan = only_strategies_of(plan, strategies)
    overrides = [f"data.train={data / plan.text.train}", f"data.valid={data / plan.text.valid}"]
    if threads:
        overrides.append(f"run.threads={threads}")
    try:
        source = Source(recipes, out, tuple(overrides), not no_train)
        results = make(plan, chosen, data, source, seed, lambda: progress(quiet), perplexity_minutes, bf16)
    except Interrupted as stop:
        sys.exit(stop.exit_code)
    print(markdown(results))
    print(f"the report is {out / 'report.html'}")
    if failed := [row.name for row in results.missing if row.status == "failed"]:
        raise TrainingError(f"failed: {', '.join(failed)}; the reasons are above")
