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
    init: Annotated[
        Path | None,
        tyro.conf.arg(metavar="RUN", help="Start from the model of another run; the same as --set run.init=RUN."),
    ] = None,
    threads: Annotated[int, tyro.conf.arg(metavar="N", help="CPU threads; the same as --set run.threads=N.")] = 0,
    seed: Annotated[int | None, tyro.conf.arg(metavar="S", help="The same as --set run.seed=S.")] = None,
    quiet: Quiet = False,
) -> None:
    """Train a model from a recipe. Ctrl-C saves and stops; --resume goes on bit for bit.

    An n-gram model is estimated at once, in seconds.
    """
    if init is not None:
        overrides += (f"run.init={init}",)
    if threads:
        overrides += (f"run.threads={threads}",)
    if seed is not None:
        overrides += (f"run.seed={seed}",)
    set_up(threads)
    from trflm.experiment.progress import progress
    from trflm.experiment.recipe import read_recipe
    from trflm.experiment.run import run_recipe
    from trflm.experiment.train import Interrupted

    try:
        run_recipe(read_recipe(recipe, overrides), out, resume, progress(quiet))
    except Interrupted as stop:
        sys.exit(stop.exit_code)
