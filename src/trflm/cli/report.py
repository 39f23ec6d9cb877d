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
    from trflm.report import run_report
    from trflm.text.writer import write_text

    path = out or run / "report.html"
    page = run_report(run)
    with write_text(path) as file:
        file.write(page)
    print(path)
