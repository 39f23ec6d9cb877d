"""`trf demo`: the whole story in a few minutes."""

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import tyro

from trflm.cli.options import Quiet, Threads, set_up
from trflm.ranges import Seed, ThreadCount


def demo(
    *,
    out: Annotated[Path, tyro.conf.arg(metavar="DIR", help="Where everything goes; what is there already is used.")] = Path(
        "demo"
    ),
    rows: Annotated[str, tyro.conf.arg(metavar="A,B", help="Only these rows of the table; -A leaves one out.")] = "",
    fresh: Annotated[bool, tyro.conf.arg(help="Remove what an earlier demo made in DIR first.")] = False,
    jobs: Annotated[ThreadCount, tyro.conf.arg(metavar="N", help="Processes of the simulated recogniser; 0: one a core.")] = 0,
    seed: Annotated[Seed, tyro.conf.arg(metavar="S", help="The same seed gives the same results.")] = 1,
    threads: Threads = 0,
    quiet: Quiet = False,
) -> None:
    """Train language models on real text, rescore the lists of a simulated recogniser with them, print the table.

    The text is a sample of Wikipedia and the pronunciations are a dictionary, both of which came with installed packages
    (pip install 'trflm[demo]'). The report is DIR/report.html.
    """
    set_up(threads)
    from trflm.experiment.progress import progress
    from trflm.experiment.train import Interrupted
    from trflm.reproduce.markdown import markdown
    from trflm.reproduce.models import Source
    from trflm.reproduce.plan import choose_rows, read_plan
    from trflm.reproduce.results import reproduce
    from trflm.simulate.demo import DemoConfig, begin, prepare, recipes

    plan = read_plan(recipes())
    chosen = choose_rows(plan, rows)
    started = time.monotonic()
    begin(out, fresh, progress(quiet).say)
    data = out / "data"
    prepare(data, DemoConfig(seed=seed), jobs or os.cpu_count() or 1, progress(quiet).say)
    overrides = [f"data.train={data / 'train.txt'}", f"data.valid={data / 'valid.txt'}", f"run.seed={seed}"]
    if threads:
        overrides.append(f"run.threads={threads}")
    try:
        results = reproduce(plan, chosen, data, Source(recipes(), out, tuple(overrides)), seed, lambda: progress(quiet))
    except Interrupted as stop:
        sys.exit(stop.exit_code)
    print(markdown(results))
    print(f"{time.monotonic() - started:.0f} seconds; the report is {out / 'report.html'}")
