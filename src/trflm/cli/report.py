"""`trf report`."""

from pathlib import Path
from typing import Annotated

import tyro

from trflm.cli.options import Threads, set_up
from trflm.errors import InputError
from trflm.ranges import Amount


def report(
    directories: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN_OR_DIR")],
    *,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help="Where to write it; else DIR/report.html.")] = None,
    samples: Annotated[Amount, tyro.conf.arg(metavar="N", help="Sentences to draw from the model of a run.")] = 5,
    threads: Threads = 0,
) -> None:
    """Write what is in a directory as one self-contained HTML page, and print its name.

    A run of `trf train`: curves, criterion, best epoch, samples. Several runs: side by side, and what differs between them. A
    directory of `trf rescore`: word errors, what changed, which terms of the score decided. A directory of `trf reproduce`
    or `trf demo`: the table, rates with intervals, examples.

    Args:
        directories: One directory of any of these kinds, or several runs.
    """
    given = list(directories)
    if not given:
        raise InputError("give a directory: a run, several runs, or what trf rescore, trf reproduce or trf demo wrote")
    if len(given) > 1 and out is None:
        raise InputError("several runs: say where to write their page, --out FILE")
    set_up(threads)
    from trflm.files.writer import write_text

    path = out or given[0] / "report.html"
    content = page_of(given, samples)
    with write_text(path) as file:
        file.write(content)
    print(path)


def page_of(directories: list[Path], samples: int) -> str:
    from trflm.report.rescored import rescored_file, rescored_page
    from trflm.report.side_by_side import runs_page
    from trflm.report.training import run_page
    from trflm.reproduce.page import results_page

    if len(directories) > 1:
        return runs_page(directories, samples)
    directory = directories[0]
    if (directory / "results.json").exists():
        return results_page(directory)
    if file := rescored_file(directory):
        return rescored_page(file)
    return run_page(directory, samples)
