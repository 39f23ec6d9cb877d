"""`trf train`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from trflm.cli.options import Quiet, set_up
from trflm.errors import InputError
from trflm.ranges import Seed, ThreadCount

if TYPE_CHECKING:
    from trflm.experiment.recipe import Recipe


def train(
    recipe: Annotated[
        Path | None,
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="RECIPE", help="A TOML file, or the name of a recipe that trflm has: ptb/kn5. With --resume alone: the run."
        ),
    ] = None,
    *,
    out: Annotated[
        Path | None, tyro.conf.arg(metavar="RUN", help="The directory for checkpoints, metrics and the model.")
    ] = None,
    overrides: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]],
        tyro.conf.arg(
            name="set", metavar="KEY=VALUE", help="Override a value of the recipe, as in --set learner.batch=200. Repeatable."
        ),
    ] = (),
    resume: Annotated[bool, tyro.conf.arg(help="Go on from the last checkpoint in RUN; start if there is none.")] = False,
    explain: Annotated[bool, tyro.conf.arg(help="Train nothing: print each key of the recipe and what it means.")] = False,
    init: Annotated[
        Path | None,
        tyro.conf.arg(metavar="RUN", help="Start from the model of another run; the same as --set run.init=RUN."),
    ] = None,
    threads: Annotated[ThreadCount, tyro.conf.arg(metavar="N", help="CPU threads; the same as --set run.threads=N.")] = 0,
    seed: Annotated[Seed | None, tyro.conf.arg(metavar="S", help="The same as --set run.seed=S.")] = None,
    device: Annotated[str, tyro.conf.arg(metavar="NAME", help="cpu, cuda, ...: the same as --set run.device=NAME.")] = "",
    quiet: Quiet = False,
) -> None:
    """Train a model from a recipe. Ctrl-C saves and stops; --resume goes on bit for bit.

    `trf train tiny --out runs/tiny` trains a small model, `trf train --resume runs/tiny` goes on with it; `trf recipes list`
    shows the recipes that trflm has. An n-gram model is estimated at once, in seconds.
    """
    if init is not None:
        overrides += (f"run.init={init}",)
    if threads:
        overrides += (f"run.threads={threads}",)
    if device:
        overrides += (f"run.device={device}",)
    if seed is not None:
        overrides += (f"run.seed={seed}",)
    if explain:
        from trflm.experiment.keys import explained
        from trflm.experiment.recipe import read_recipe

        if recipe is None:
            raise InputError("give a recipe to explain, for instance trf train tiny --explain; trf recipes list shows them")
        print(explained(read_recipe(recipe, overrides)))
        return
    set_up(threads)
    from trflm.experiment.progress import progress
    from trflm.experiment.run import run_recipe
    from trflm.experiment.train import Interrupted

    to_train, run = what_and_where(recipe, out, overrides, resume)
    try:
        run_recipe(to_train, run, resume, progress(quiet))
    except Interrupted as stop:
        sys.exit(stop.exit_code)


def what_and_where(recipe: Path | None, out: Path | None, overrides: tuple[str, ...], resume: bool) -> "tuple[Recipe, Path]":
    """The recipe to train and the directory of its run; a run that is resumed needs nothing but its name."""
    from trflm.experiment.recipe import read_recipe, recipe_of_run

    if resume and (recipe is None or out is None):
        run = out or recipe
        if run is None or (recipe is not None and not recipe.is_dir()):
            named = f"{recipe}: there is no such run" if recipe is not None else "--resume: which run"
            raise InputError(f"{named}; write trf train --resume RUN, or trf train RECIPE --out RUN --resume")
        return recipe_of_run(run, overrides), run
    if recipe is None:
        raise InputError("give a recipe: trf train RECIPE --out RUN; trf recipes list shows those that trflm has")
    read = read_recipe(recipe, overrides)
    if out is None:
        raise InputError(f"say where to train {recipe}: --out RUN, a new directory")
    return read, out
