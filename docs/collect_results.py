"""Take over rows that `trf reproduce` made into docs/results/ptb.json: `python docs/collect_results.py RESULTS.json ...`

A row keeps its figures and gets its own seed, commit, date and machine, so that rows of several runs can stand together. What
only the HTML report needs (curves, examples) is left out. A row takes the place of the one with its name; one that is not
available takes no place.
"""

import json
import sys
from pathlib import Path
from typing import Any

from trflm.files.parse import parse_json

FILE = Path(__file__).parent / "results" / "ptb.json"
LEFT_OUT = ("changed", "curves", "scale_curve", "paper", "status")


def collected(kept: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    """The kept table with the rows of another; rows stand in the order in which their names first came."""
    rows = {row["name"]: row for row in kept["rows"]}
    for row in results["rows"]:
        if row["status"] == "done":
            figures = {key: value for key, value in row.items() if key not in LEFT_OUT}
            rows[row["name"]] = {**figures, "seed": results["seed"], "made": results["made"]}
    return {**kept, "references": results["references"], "rows": list(rows.values())}


def main(paths: list[str]) -> None:
    table = parse_json(FILE.read_text(encoding="utf-8"))
    for path in paths:
        table = collected(table, parse_json(Path(path).read_text(encoding="utf-8")))
    FILE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
