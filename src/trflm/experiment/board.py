"""Metrics as TensorBoard events, for those who watch there: RUN/tensorboard, beside metrics.jsonl, which has the same."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from trflm.errors import InputError
from trflm.learning.loop import Moment

BOARD = "tensorboard"  # the directory of the events


def check_board(wanted: bool) -> None:
    """Before anything is computed."""
    if wanted and find_spec("tensorboard") is None:
        raise InputError("run.tensorboard: tensorboard is not installed: pip install 'trflm[tensorboard]', or leave it out")


@contextmanager
def board(run: Path, wanted: bool, step: int) -> Iterator[Callable[[Moment], None]]:
    """What takes each moment of a training that goes on after `step`: events of later steps, which a kill left, are void."""
    if not wanted:
        yield lambda moment: None
        return
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(run / BOARD), purge_step=step + 1)

    def record(moment: Moment) -> None:
        for name, value in {**moment.metrics, **(moment.dev or {})}.items():
            writer.add_scalar(f"dev/{name.removeprefix('dev_')}" if name.startswith("dev_") else name, value, moment.step)

    try:
        yield record
    finally:
        writer.close()
