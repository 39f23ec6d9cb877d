"""The recipes that come with trflm, by name: `ptb/kn5` is recipes/ptb/kn5.toml of the source tree or the installed package."""

import difflib
from pathlib import Path

from trflm.errors import InputError

TABLES = "tables.toml"  # the plan of `trf reproduce`, which is no recipe


def root() -> Path:
    """recipes/ of the installed package, or of the source tree."""
    inside = Path(__file__).parents[1] / "recipes"
    return inside if inside.exists() else Path(__file__).parents[3] / "recipes"


def names() -> list[str]:
    """Of all shipped recipes, as `find_recipe` takes them."""
    found = (path.relative_to(root()) for path in root().rglob("*.toml") if path.name != TABLES)
    return sorted(path.with_suffix("").as_posix() for path in found)


def find_recipe(name: Path | str) -> Path:
    """The recipe of this name: a file, or else one that came with trflm (ptb/kn5; recipes/ptb/kn5.toml is the same)."""
    if Path(name).is_file():
        return Path(name)
    short = _short(name)
    if short in names():
        return root() / f"{short}.toml"
    last = {known.rpartition("/")[2]: known for known in names()}
    close = [
        *difflib.get_close_matches(short, names(), n=1),
        *(last[n] for n in difflib.get_close_matches(short, last, 1, 0.5)),
    ]
    hint = f"did you mean {close[0]}?" if close else "those that come with trflm are shown by trf recipes list"
    raise InputError(f"{name}: there is no such recipe, neither a file nor by name; {hint}")


def find_directory(name: Path | str) -> Path:
    """The directory of recipes of this name: one that is there, or else one that came with trflm (ptb)."""
    shipped = root() / _short(name)
    return shipped if not Path(name).is_dir() and _short(name) and shipped.is_dir() else Path(name)


def about(recipe: Path) -> str:
    """The first sentence of the comment that a recipe begins with."""
    lines = recipe.read_text(encoding="utf-8").splitlines()
    comment = lines[: next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))]
    return " ".join(line[1:].strip() for line in comment).partition(". ")[0].rstrip(".:")


def _short(name: Path | str) -> str:
    return Path(name).as_posix().removeprefix("recipes/").removesuffix(".toml")
