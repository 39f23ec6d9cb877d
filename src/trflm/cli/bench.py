"""`trf bench`: the side-by-side measurements of benchmarks/, which come with the source tree, not with the package."""

import runpy
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from trflm.errors import InputError
from trflm.ranges import ThreadCount

SCRIPTS = {"rescore": "rescoring.py", "train": "augsa_step.py"}


def bench(
    what: Annotated[Literal["rescore", "train"], tyro.conf.Positional],
    *,
    quick: Annotated[bool, tyro.conf.arg(help="End within 45 s on 2 idle cores.")] = False,
    json: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help="Also write settings, medians and ratios here.")] = None,
    data: Annotated[
        Path | None, tyro.conf.arg(metavar="DIR", help="Real lists (rescore) or text (train); else made up.")
    ] = None,
    threads: Annotated[ThreadCount, tyro.conf.arg(metavar="N", help="CPU threads.")] = 2,
) -> None:
    """Measure against the plain way of doing it, interleaved in one process; the last lines are `ratio LABEL VALUE`."""
    directory = Path(__file__).parents[3] / "benchmarks"
    script = directory / SCRIPTS[what]
    if not script.exists():
        raise InputError(
            f"{script}: not there; benchmarks come with the source tree, so install trflm from it (pip install -e .)"
        )
    options = {"--json": json, "--data": data, "--threads": threads}
    given = [text for name, value in options.items() if value is not None for text in (name, str(value))]
    before = sys.argv, sys.path
    try:
        sys.argv, sys.path = [str(script), *(["--quick"] if quick else []), *given], [str(directory), *sys.path]
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as stop:
        if not isinstance(stop.code, str):
            raise
        raise InputError(stop.code) from stop
    finally:
        sys.argv, sys.path = before
