"""The processes that train one model together, as torchrun starts them, and what they tell one another.

Bare collectives of torch.distributed: gloo between CPUs, nccl between GPUs. Whoever calls one of these methods calls it in
every process, in the same order. A process that ends early takes the others with it: their next collective raises `LostWorker`.
"""

import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from trflm.errors import InputError, TrainingError

T = TypeVar("T")

# A process that dies is seen at once. This is for one that is merely slow, such as the first one while it computes a start.
PATIENCE = timedelta(days=1)


class LostWorker(TrainingError):
    """Another process of this training has ended, and nothing can be computed without it."""

    def __init__(self) -> None:
        super().__init__(
            "another process of this training has ended or cannot be reached; torchrun says below which one. "
            "The last checkpoint is kept: go on with --resume"
        )


class Workers:
    """All processes; this is number `rank` of `size`. A process by itself is the first of one, and tells nobody anything."""

    def __init__(self, rank: int = 0, size: int = 1, device: str = "cpu", leads_machine: bool = True) -> None:
        self.rank, self.size, self.device, self.leads_machine = rank, size, device, leads_machine

    @property
    def first(self) -> bool:
        """Whether this is the one that writes and decides."""
        return self.rank == 0

    def all_of(self, mine: Sequence[T]) -> list[T]:
        """The things of all processes, in the order of their ranks. Small things: they are pickled."""
        if self.size == 1:
            return list(mine)
        parts: list[Any] = [None] * self.size
        with together():
            dist.all_gather_object(parts, self._packed(list(mine)))
        return [thing for part in parts for thing in self._unpacked(part)]

    def from_first(self, make: Callable[[], T]) -> T:
        """What the first process makes; the others wait for it."""
        if self.size == 1:
            return make()
        box: list[Any] = [self._packed(make()) if self.first else None]
        with together():
            dist.broadcast_object_list(box, src=0)
        return self._unpacked(box[0])

    def first_then_others(self, make: Callable[[], T]) -> T:
        """What `make` makes in every process: first in one of each machine, whose cache the others find filled."""
        if self.size == 1:
            return make()
        made = [make()] if self.leads_machine else []
        with together():
            dist.barrier()
        return made[0] if made else make()

    def _packed(self, thing: object) -> bytes:
        file = io.BytesIO()
        torch.save(thing, file)
        return file.getvalue()

    def _unpacked(self, content: bytes) -> Any:
        """Its tensors on the device of this process."""
        return torch.load(io.BytesIO(content), map_location=self.device, weights_only=False)

    def greatest(self, numbers: Sequence[int]) -> list[int]:
        """Of each of these numbers, the greatest that a process has."""
        if self.size == 1:
            return list(numbers)
        tensor = torch.tensor(numbers)
        with together():
            dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return tensor.tolist()

    def add(self, vector: Tensor) -> Tensor:
        """[P] the sum over the processes, in an order of the backend's own."""
        if self.size > 1:
            with together():
                dist.all_reduce(vector)
        return vector

    def sum_rows(self, rows_nP: Sequence[Tensor], counts: Sequence[int], fold: Callable[[Sequence[Tensor]], Tensor]) -> Tensor:
        """[P] = fold([R, P]): the rows of all processes, in the order of their ranks, added up as `fold` says.

        Each process folds a slice of the columns and has the others' results: 2 P (size - 1) / size numbers sent and received
        when each has one row, no more than any way of adding vectors up. `counts`: the number of rows of every process; P is a
        multiple of their size.
        """
        if self.size == 1:
            return fold(rows_nP)
        n, width = len(rows_nP), len(rows_nP[0]) // self.size
        slices = [row_P.view(self.size, width) for row_P in rows_nP]
        outgoing = torch.stack(slices, 1).flatten() if n > 1 else rows_nP[0]
        incoming = outgoing.new_empty(sum(counts) * width)
        total_P = outgoing.new_empty(self.size * width)
        with together():
            dist.all_to_all_single(incoming, outgoing, [count * width for count in counts], [n * width] * self.size)
        slice_of_mine = fold(list(incoming.view(-1, width)))
        with together():
            dist.all_gather(list(total_P.view(self.size, width)), slice_of_mine)
        return total_P


ALONE = Workers()


@contextmanager
def together() -> Iterator[None]:
    """A collective that fails does so because another process has gone."""
    try:
        yield
    except RuntimeError as error:
        raise LostWorker from error


def started_together() -> bool:
    """Whether torchrun (or somebody who sets its variables) started this process."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


@contextmanager
def workers(device: str) -> Iterator[Workers]:
    """The processes that torchrun started, this one among them; this one alone if it was not torchrun."""
    if not started_together():
        yield ALONE
        return
    rank, size, local = (int(os.environ.get(name, "0")) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    if device == "cuda":
        here, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count()
        if here > gpus:
            raise InputError(f"{here} processes on a machine with {gpus} GPUs: start it with torchrun --nproc-per-node {gpus}")
        torch.cuda.set_device(local)
    backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
    with together():
        dist.init_process_group(backend, rank=rank, world_size=size, timeout=PATIENCE)
    try:
        yield Workers(rank, size, device, leads_machine=local == 0)
        with together():
            dist.barrier()  # nobody leaves while another still listens to it
    finally:
        dist.destroy_process_group()
        sys.stdout.flush()
        sys.stderr.flush()
