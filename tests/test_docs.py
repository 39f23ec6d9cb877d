"""The documents name what is there: each code name of docs/math.md is looked up in the package, each path in the tree.

Names are read from the source without importing it. What a name in backticks may be:

    `text/lengths.py: empirical_pi`     a file of the package, and a name defined in it
    `TRF.log_prob`, `jump.log_gamma`    a member of a class or of a module
    `[reference] folds`, `--init`       a key of a recipe, an option of the command line
    `phi_B = potential(batch)`          an expression: each name in it is defined somewhere
"""

import ast
import builtins
import importlib
import json
import re
import runpy
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "trflm"
DOCS = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FOLDERS = ("docs", "recipes", "benchmarks", "tests", "src")  # a path that begins with one of them is one of ours
SYMBOLS = {"t"}  # of the paper, in an expression of the code


@dataclass
class Names:
    """What a package defines: its modules and classes with their members, and all names."""

    members: dict[str, set[str]] = field(default_factory=dict)  # of a module or class, by its last name
    bases: dict[str, set[str]] = field(default_factory=dict)
    every: set[str] = field(default_factory=set)

    def has(self, owner: str, name: str) -> bool:
        return name in self.members.get(owner, ()) or any(self.has(base, name) for base in self.bases.get(owner, ()))


def names_of(files: list[Path]) -> Names:
    names = Names()
    for file in files:
        add(names, file.parent.name if file.stem == "__init__" else file.stem, ast.parse(file.read_text(encoding="utf-8")))
    names.every |= names.members.keys() | set().union(*names.members.values())
    return names


def add(names: Names, owner: str, node: ast.Module | ast.ClassDef) -> None:
    """What this module or class defines; the attributes that a method gives to self belong to its class."""
    members = names.members.setdefault(owner, set())
    for part in node.body:
        if isinstance(part, ast.ClassDef):
            members.add(part.name)
            names.bases.setdefault(part.name, set()).update(base.id for base in part.bases if isinstance(base, ast.Name))
            add(names, part.name, part)
        elif isinstance(part, ast.FunctionDef):
            members.add(part.name)
            names.every |= {argument.arg for argument in (*part.args.posonlyargs, *part.args.args, *part.args.kwonlyargs)}
            members |= {a.attr for a in ast.walk(part) if isinstance(a, ast.Attribute) and is_set_on_self(a)}
        elif isinstance(part, ast.Assign | ast.AnnAssign):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            members |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def is_set_on_self(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self"


@cache
def package() -> Names:
    return names_of(sorted(PACKAGE.rglob("*.py")))


def wrong_names(code: str, names: Names) -> list[str]:
    """The names in this piece of code that are defined nowhere."""
    if code.startswith("<") and code.endswith(">"):  # a symbol of the vocabulary
        return []
    path, _, rest = code.partition(": ")
    if rest:
        file = PACKAGE / path
        inside = names_of([file]) if file.is_file() else Names()
        return [f"{path}: {name}" for name in rest.split(", ") if not known(name, inside)]
    if is_path(code):
        return wrong_paths(code)
    key = re.fullmatch(r"\[(\w+)\] (\w+)|--(\w[\w-]*)", code)
    if key:
        return [name for name in key.groups() if name and name.replace("-", "_") not in names.every]
    return [name for name in dotted(code) if not known(name, names)]


def dotted(code: str) -> Iterator[str]:
    """The names in an expression or statement; `a.b.c` is one."""
    tree = ast.parse(code)
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner:
            yield ast.unparse(node)


def known(name: str, names: Names) -> bool:
    *owners, last = name.split(".")
    if owners:
        return names.has(owners[-1], last)
    return last in names.every or last in SYMBOLS or hasattr(builtins, last)


def is_path(code: str) -> bool:
    """Whether this is the name of a file or folder of ours; files that a user has or gets are not."""
    first = code.split("/")[0]
    return " " not in code and (code.endswith((".py", "/")) or (first != code and first in FOLDERS))


def wrong_paths(code: str) -> list[str]:
    """This path, if there is no such file; `*_loops.py` means files of this name anywhere in the package."""
    if "*" in code:
        return [] if any(PACKAGE.rglob(code)) else [code]
    return [] if any((folder / code).exists() for folder in (PACKAGE, ROOT, ROOT / "docs")) else [code]


def code_of(file: Path) -> Iterator[tuple[int, str]]:
    """The pieces of code in a document with their lines; blocks of code are left out. In a table `|` is written `\\|`."""
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith("    "):
            yield from ((number, code.replace("\\|", "|")) for code in CODE.findall(line))


def test_the_drawing_of_the_windows_is_what_its_script_draws():
    script = runpy.run_path(str(ROOT / "docs" / "draw_windows.py"))
    assert (ROOT / "docs" / "windows.svg").read_text(encoding="utf-8") == script["drawing"]()


def test_every_code_name_of_the_mathematics_is_in_the_package():
    file = ROOT / "docs" / "math.md"
    wrong = [f"{file.name}:{line}: {name}" for line, code in code_of(file) for name in wrong_names(code, package())]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("file", DOCS, ids=lambda file: file.name)
def test_every_path_in_a_document_is_in_the_tree(file: Path):
    wrong = [f"{file.name}:{line}: {name}" for line, code in code_of(file) if is_path(code) for name in wrong_paths(code)]
    links = [link.partition("#")[0] for link in LINK.findall(file.read_text(encoding="utf-8")) if "://" not in link]
    wrong += [f"{file.name}: {link}" for link in links if not (file.parent / link).exists()]
    assert not wrong, "\n".join(wrong)


def test_the_tree_of_the_package_is_drawn_whole():
    drawn = re.findall(r"^    (\w+(?:/|\.py)) ", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)
    there = [
        f"{path.name}/" if path.is_dir() else path.name for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"
    ]
    there = [name for name in there if not name.startswith("__")]
    assert sorted(drawn) == sorted(there)


@pytest.mark.parametrize(
    "wrong",
    [
        "CNN._convolve",
        "TRF.log_probability",
        "jump.log_gama",
        "no_such_name",
        "text/lengths.py: no_such_name",
        "no/such.py: TRF",
        "no_such_folder/",
        "[reference] no_such_key",
        "--no-such-option",
        "phi_B = no_such_potential(batch)",
    ],
)
def test_a_wrong_name_is_found(wrong: str):
    assert wrong_names(wrong, package())


@pytest.mark.parametrize("right", ["CNN.contributions", "CNN._bank", "TRF.log_prob", "text/lengths.py: empirical_pi", "--init"])
def test_a_right_name_is_none(right: str):
    assert not wrong_names(right, package())


def test_the_table_of_perplexities_has_the_figures_of_its_file():
    text = (ROOT / "docs/math.md").read_text()
    for row in json.loads((ROOT / "docs/results/perplexity.json").read_text())["fields"]:
        figures = " | ".join(f"{row[name]:.1f}" for name in ("own", "low", "high"))
        assert f"| {row['field']} | {figures} | {row['how']}; {row['minutes']:.1f} |" in text


def test_what_shows_results_is_made_from_their_files():
    for path, page in runpy.run_path(str(ROOT / "docs" / "write_results.py"))["PAGES"].items():
        assert path.read_text(encoding="utf-8") == page(), f"{path.name} is not up to date: make results"


def test_rows_of_a_table_take_the_place_of_those_with_their_names():
    collected = runpy.run_path(str(ROOT / "docs" / "collect_results.py"))["collected"]
    kept = {"about": "a table", "references": {}, "rows": [{"name": "a", "wer": 1}, {"name": "b", "wer": 2}]}
    rows = [
        {"name": "a", "status": "done", "wer": 3, "curves": {}},
        {"name": "b", "status": "not available"},
        {"name": "c", "status": "done", "wer": 4},
    ]
    table = collected(kept, {"seed": 7, "made": {"commit": "abc"}, "references": {"oracle": 5}, "rows": rows})
    made = {"seed": 7, "made": {"commit": "abc"}}
    assert table["rows"] == [{"name": "a", "wer": 3, **made}, {"name": "b", "wer": 2}, {"name": "c", "wer": 4, **made}]
    assert table["references"] == {"oracle": 5}


def test_curves_of_a_run_are_means_over_steps_and_figures_of_epochs(tmp_path: Path):
    pytest.importorskip("matplotlib")
    script = runpy.run_path(str(ROOT / "docs" / "draw_curves.py"))
    steps, of_steps = 2 * script["STEPS"] + 1, script["OF_STEPS"]
    rows = [{"step": n, "epoch": n / 10, "seconds": 2.0 * n, **dict.fromkeys(of_steps, float(n))} for n in range(1, steps + 1)]
    rows[9] |= dict.fromkeys(script["OF_EPOCHS"], -1.5)
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "config.json").write_text(json.dumps({"commit": "abc", "recipe": {"learner": {"kind": "augsa"}}}))
    found = script["taken_over"](tmp_path)
    assert (found["steps"], found["seconds"], found["commit"]) == (steps, 2.0 * steps, "abc")
    assert found["curves"]["kl"] == [[2.0, 10.5], [4.0, 30.5], [4.1, 41.0]]
    assert found["curves"]["dev_choice"] == [[1.0, -1.5]]


def test_the_site_builds_without_a_warning(tmp_path: Path):
    build = pytest.importorskip("mkdocs.commands.build", reason="mkdocs (extra docs) is not installed")
    config = importlib.import_module("mkdocs.config").load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True)
    build.build(config)
    assert "random field" in (tmp_path / "index.html").read_text(encoding="utf-8")
    for page in tmp_path.rglob("*.html"):
        fetched = re.findall(r'(?:src|<link[^>]*href)="(https?://[^"]+)"', page.read_text(encoding="utf-8"))
        assert not fetched, f"{page.name} fetches {fetched}"
