"""Independent calls side by side, each on a thread of its own.

Scoring a list is a hundred small operations. Within each of them torch's threads wait for one another; side by side, none does.
"""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

T = TypeVar("T")


def in_threads(calls: Sequence[Callable[[], T]]) -> Generator[T, None, None]:
    """The results of the calls, in order, run by as many threads as torch may use; within a call torch then uses one.

    A single call, or all of them where torch may use one thread only, are simply made. If the caller stops, the calls that have
    not begun are dropped.
    """
    n_threads = torch.get_num_threads()
    if min(n_threads, len(calls)) < 2:
        yield from (call() for call in calls)
        return
    try:
        with ThreadPoolExecutor(min(n_threads, len(calls)), initializer=torch.set_num_threads, initargs=(1,)) as workers:
            yield from workers.map(lambda call: call(), calls)  # which drops the rest when it is closed
    finally:
        torch.set_num_threads(n_threads)  # the workers' own setting is also what a new thread would take over
