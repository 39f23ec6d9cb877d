"""What several commands share: their common arguments and setting up torch."""

import os
from pathlib import Path
from typing import Annotated

import tyro

from trflm.ranges import ThreadCount

Model = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL", help="A run or model directory, or an ARPA file.")]
Text = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="[TEXT]", help="One sentence a line; - is stdin.")]
File = Annotated[str, tyro.conf.arg(metavar="FILE")]  # or an address such as s3://bucket/file
Threads = Annotated[ThreadCount, tyro.conf.arg(metavar="N", help="CPU threads; 0 leaves the choice to torch.")]
BF16 = Annotated[
    bool, tyro.conf.arg(name="bf16", help="Random fields and LSTMs multiply in bf16, on a CPU that has instructions for it.")
]
Device = Annotated[
    str, tyro.conf.arg(metavar="NAME", help="Where networks compute, as torch names it: cpu, cuda, cuda:1, mps.")
]
Quiet = Annotated[bool, tyro.conf.arg(help="Print results only.")]


def set_up(threads: int) -> None:
    """Before the first use of torch."""
    from trflm.speed.memory import keep_freed_memory

    keep_freed_memory()
    if threads:
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
        import torch

        torch.set_num_threads(threads)
