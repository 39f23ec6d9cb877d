"""Imports point up the list of CONTRIBUTING.md, and no two modules import each other, also not by a late import."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "trflm"
LIST = re.search(r"imports point up this list only:\n\n(.*?)\n\n", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
assert LIST is not None
ROOMS = [re.sub(r"(/|\.py)$", "", line.split()[0]) for line in LIST[1].splitlines()]
EDGES = {"__init__", "__main__"}  # the package itself: it names what lies below


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in PACKAGE.rglob("*.py")}


def imports(module: str, path: Path) -> set[str]:
    """The modules of the package that this one imports when it runs, at once or late."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "trflm":
            base = (node.module or "").removeprefix("trflm").removeprefix(".")
            for name in node.names:
                inner = f"{base}.{name.name}".lstrip(".")
                found.add(inner if inner in MODULES else base)
        elif isinstance(node, ast.Import):
            found.update(name.name.removeprefix("trflm.") for name in node.names if name.name.startswith("trflm."))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return {name for name in found if name and name in MODULES and name != module}


def room(module: str) -> int:
    return ROOMS.index(module.split(".")[0])


def test_imports_point_up_the_list():
    down = [
        f"{module} imports {name}"
        for module, path in MODULES.items()
        if module and path.stem not in EDGES | {"__main__"}
        for name in imports(module, path)
        if room(name) > room(module)
    ]
    assert not down


def test_no_modules_import_each_other():
    """`potentials.mixed` asks its folder for the kinds when a recipe is read: the one circle, and it is closed late."""
    graph = {
        module: imports(module, path) - ({"potentials"} if module == "potentials.mixed" else set())
        for module, path in MODULES.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError and names the circle
