"""`trf report`."""

from pathlib import Path
from typing import Annotated

import tyro


def report(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN", help="A run directory.")],
    *,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help="Where to write it; else RUN/report.html.")] = None,
) -> None:
    """Write the curves and settings of a run as one self-contained HTML file, and print its name."""
    from trflm.checkpoint import write_atomically
    from trflm.report import run_report

    path = out or run / "report.html"
    write_atomically(path, run_report(run).encode())
    print(path)
