"""`trf report`."""

from pathlib import Path
from typing import Annotated

import tyro


def report(
    run: Annotated[
        Path,
        tyro.conf.Positional,
        tyro.conf.arg(metavar="RUN_OR_DIR", help="A run directory, or the directory of a table (trf reproduce, trf demo)."),
    ],
    *,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help="Where to write it; else RUN/report.html.")] = None,
) -> None:
    """Write the curves and settings of a run, or a table of results, as one self-contained HTML file, and print its name."""
    from trflm.experiment.curves import run_report
    from trflm.files.writer import write_text
    from trflm.reproduce.page import results_page

    path = out or run / "report.html"
    page = results_page(run) if (run / "results.json").exists() else run_report(run)
    with write_text(path) as file:
        file.write(page)
    print(path)
