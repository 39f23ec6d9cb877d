"""Write the pages that are made from the code: docs/recipes.md. `make docs` runs this; a test sees that they are up to date."""

from pathlib import Path

from trflm.experiment.keys import Key, about, keys_of, kind_of, sections_of, written
from trflm.experiment.recipe import RECIPES

DOCS = Path(__file__).parent


def recipes_page() -> str:
    """How recipes are found, by hand; every section and key, from the dataclasses."""
    parts = [(DOCS / "recipes-about.md").read_text(encoding="utf-8"), *map(described, kinds_by_section().items())]
    return "\n".join(parts)


def kinds_by_section() -> dict[str, list[type]]:
    """section -> all kinds of thing that it may hold, over all kinds of recipes."""
    found: dict[str, list[type]] = {}
    for recipe in RECIPES:
        for name, kinds in sections_of(recipe):
            found.setdefault(name, []).extend(kind for kind in kinds if kind not in found.get(name, []))
    return found


def described(section: tuple[str, list[type]]) -> str:
    """A section in markdown: a table of keys for each kind of thing."""
    name, kinds = section
    lines = [f"## [{name}]", ""]
    for kind in kinds:
        title = f'`kind = "{kind_of(kind)}"`: ' if len(kinds) > 1 and kind_of(kind) else ""
        text = about(kind)
        lines += [title + (text if title else text[:1].upper() + text[1:]), "", *table(keys_of(kind))]
    return "\n".join(lines)


def table(keys: list[Key]) -> list[str]:
    if not keys:
        return []
    rows = [(f"`{key.name}`", key.type, f"`{written(key.default)}`", key.meaning) for key in keys]
    return ["| key | type | default | meaning |", "| --- | --- | --- | --- |", *map(row, rows), ""]


def row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|').replace('<', '&lt;') for cell in cells)} |"


PAGES = {"recipes.md": recipes_page}


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
        print(DOCS / name)
