"""Write the pages that are made from the code: recipes.md from the dataclasses of recipes, api.md from docstrings.

`make docs` runs this; a test sees that the pages are up to date.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import trflm
from trflm.deploy.rescorer import Result, WordParts
from trflm.errors import InputError, TrainingError
from trflm.evaluation.nbest import NBest, NBestList
from trflm.evaluation.perplexity import Perplexity
from trflm.evaluation.second_pass.combine import Rescored
from trflm.evaluation.wer import WordErrors
from trflm.experiment.keys import Key, about, keys_of, kind_of, meanings_of, sections_of, written
from trflm.experiment.recipe import RECIPES
from trflm.language_model import LanguageModel

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


RETURNED = (LanguageModel, Result, WordParts, NBest, NBestList, Rescored, WordErrors, Perplexity, InputError, TrainingError)


def api_page() -> str:
    """Everything that `import trflm` offers, and the classes it returns."""
    lines = [
        "# trflm from Python",
        "",
        "Made from the docstrings by `make docs`. [examples/rescore.ipynb](../examples/rescore.ipynb) walks through it on data",
        "that it makes itself. Scores are natural logs, higher is better. Wrong input raises `InputError`, which names the",
        "file, the line and the remedy.",
        "",
        *(line for name in trflm.__all__ for line in documented(f"trflm.{name}", getattr(trflm, name))),
        "# What they return",
        "",
        *(line for cls in RETURNED for line in documented(cls.__name__, cls)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def documented(name: str, thing: Any, level: str = "##") -> Iterator[str]:
    """A function, or a class with its attributes and methods."""
    yield from (f"{level} {name}", "")
    if not inspect.isclass(thing) or thing is trflm.Rescorer:
        yield from signature(name, thing)
    yield from (*text(inspect.getdoc(thing) or ""), "")
    if inspect.isclass(thing):
        yield from members(thing)


def signature(name: str, function: Any) -> Iterator[str]:
    """The call in a block of code, without the modules of its types."""
    shown = str(inspect.signature(function, eval_str=False)).replace("(self, ", "(").replace("(self)", "()")
    shown = re.sub(r"(?:typing\.)?Annotated\[(\w+), Range\([^)]*\)\]", r"\1", shown)  # ranges are told by the errors
    shown = re.sub(r"(?:typing\.)?Optional\[(\w+)\]", r"\1 | None", shown)
    shown = re.sub(r"<function <lambda> at \w+>", "...", shown)
    shown = re.sub(r"= '(\w*)'", r'= "\1"', re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", shown)).replace("'", "")
    yield from ("```python", f"{name}{shown}", "```", "")


def text(doc: str) -> Iterator[str]:
    """A docstring in markdown: its list of arguments becomes a list."""
    body, _, arguments = doc.partition("\nArgs:\n")
    yield from body.rstrip().splitlines()
    if arguments:
        yield ""
        for line in arguments.splitlines():
            argument = re.fullmatch(r"    (\w+): (.*)", line)
            yield f"- `{argument[1]}`: {argument[2]}" if argument else f"  {line.strip()}".rstrip()


def members(cls: type) -> Iterator[str]:
    """The public attributes of a class with the comments beside them, then its methods."""
    if hasattr(cls, "__dataclass_fields__"):
        meanings = meanings_of(cls)
        for field in cls.__dataclass_fields__.values():
            yield f"- `{field.name}`" + (f": {meanings[field.name]}" if meanings.get(field.name) else "")
    properties = {name: value for name, value in vars(cls).items() if is_property(value) and not name.startswith("_")}
    for name, value in properties.items():
        doc = " ".join((inspect.getdoc(value) or "").split())
        yield f"- `{name}`" + (f": {doc}" if doc and not doc.startswith("Transform a method") else "")
    yield ""
    for name, value in vars(cls).items():
        function = value.__func__ if isinstance(value, classmethod) else value
        if inspect.isfunction(function) and inspect.getdoc(function) and (name == "__call__" or not name.startswith("_")):
            shown = f"{cls.__name__}.{name}" if name != "__call__" else f"{cls.__name__}(...)"
            yield from (f"### {shown}", "", *signature(name if name != "__call__" else "rescorer", getattr(cls, name)))
            yield from (*text(inspect.getdoc(function) or ""), "")


def is_property(value: Any) -> bool:
    return isinstance(value, property) or type(value).__name__ == "cached_property"


PAGES = {"recipes.md": recipes_page, "api.md": api_page}


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
        print(DOCS / name)
