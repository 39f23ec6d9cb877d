"""`trf train`."""

import sys
from pathlib import Path
from typing import Annotated

import tyro

from trflm.cli.options import Quiet, set_up


def train(
    recipe: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE.toml", help="What to train, on what, how.")],
    *,
    out: Annotated[Path, tyro.conf.arg(metavar="RUN", help="The directory for checkpoints, metrics and the model.")],
    overrides: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]],
        tyro.conf.arg(name="set", metavar="KEY=VALUE", help="Override a value of the recipe, as in --set learner.batch=200."),
    ] = (),
    resume: Annotated[bool, tyro.conf.arg(help="Go on from the last checkpoint in RUN; start if there is none.")] = False,
    threads: Annotated[int, tyro.conf.arg(metavar="N", help="CPU threads; the same as --set run.threads=N.")] = 0,
    seed: Annotated[int | None, tyro.conf.arg(metavar="S", help="The same as --set run.seed=S.")] = None,
    quiet: Quiet = False,
) -> None:
    """Train a model from a recipe. Ctrl-C saves and stops; --resume goes on bit for bit."""
    if threads:
        overrides += (f"run.threads={threads}",)
    if seed is not None:
        overrides += (f"run.seed={seed}",)
    set_up(threads)
    from trflm import run
    from trflm.config import read_recipe
    from trflm.progress import progress

    try:
        run.train(read_recipe(recipe, overrides), out, resume, progress(quiet))
    except run.Interrupted as stop:
        sys.exit(stop.exit_code)
