"""`trf recipes`: the recipes that come with trflm."""

import shutil
import textwrap
from pathlib import Path
from typing import Annotated

import tyro

from trflm.errors import InputError

Name = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME", help="Of a recipe, as trf recipes list shows it.")]


def show_list() -> None:
    """Print the names of all recipes, and what each is."""
    from trflm.experiment.shipped import about, names, root

    known = names()
    width = max(map(len, known)) + 2
    for name in known:
        lines = textwrap.wrap(about(root() / f"{name}.toml"), max(40, shutil.get_terminal_size().columns - width))
        print("\n".join(f"{name if number == 0 else '':{width}}{line}" for number, line in enumerate(lines)))


def show(name: Name) -> None:
    """Print a recipe as it is written. `trf train NAME --explain` says what each key means."""
    from trflm.experiment.shipped import find_recipe

    print(find_recipe(name).read_text(encoding="utf-8"), end="")


def copy(
    name: Annotated[
        str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME", help="Of a recipe, or of a directory of them: ptb.")
    ],
    directory: Annotated[
        Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR", help="Where to; nothing in it is written over.")
    ],
) -> None:
    """Copy a recipe, or a whole directory of them, to change it: with what lies beside it, its text for instance."""
    from trflm.experiment.paths import paths_of
    from trflm.experiment.recipe import read_recipe
    from trflm.experiment.shipped import find_directory, find_recipe

    source = find_directory(name)
    if source.is_dir() and not source.with_suffix(".toml").exists():
        files = {path: path.relative_to(source) for path in sorted(source.rglob("*")) if path.is_file()}
    else:
        recipe = find_recipe(name)
        named = [Path(path) for path in paths_of(read_recipe(recipe))]
        beside = [path for path in named if recipe.parent in path.parents and path.is_file()]
        files = {path: path.relative_to(recipe.parent) for path in (recipe, *beside)}
    for target in (directory / place for place in files.values()):
        if target.exists():
            raise InputError(f"{target}: exists already; give another DIR")
    for path, place in files.items():
        (directory / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, directory / place)
        print(directory / place)


def recipes(
    action: Annotated[
        Annotated[None, tyro.conf.subcommand("list", constructor=show_list)]
        | Annotated[None, tyro.conf.subcommand("show", constructor=show)]
        | Annotated[None, tyro.conf.subcommand("copy", constructor=copy)],
        tyro.conf.arg(name=""),
    ],
) -> None:
    """List, show or copy the recipes that come with trflm."""
