"""Independent calls side by side, each on a thread of its own.

A forked process has one thread, and GNU OpenMP waits forever for those it had before: so in a child torch uses one.

Scoring a list is a hundred small operations. Within each of them torch's threads wait for one another; side by side, none does.
Whole lists get threads made for them, and results as they come (`in_threads`). The parts of a list are too short for that, and
new threads would share the cores with torch's, which go on spinning for 10 ms after an operation: so those make them
(`on_torch_threads`).
"""

import ctypes
import functools
import os
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

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


def on_torch_threads(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """The results of the calls, in order, made by torch's own OpenMP threads; within a call torch then uses one.

    A thread that is done takes the next call, so the longest should come first. What torch keeps for each thread, as `no_grad`,
    does not reach into the calls. Where `team_size` is one, the calls are simply made.
    """
    n_threads = team_size()
    parallel = gomp_parallel() if min(n_threads, len(calls)) > 1 else None
    if parallel is None:
        return [call() for call in calls]
    results: dict[int, Any] = {}
    errors: list[BaseException] = []
    todo = enumerate(calls)

    def work(_: None) -> None:
        _this_thread.on_torch_threads = True
        try:
            for number, call in todo:
                results[number] = call()
        except BaseException as error:  # ctypes would print and forget it
            errors.append(error)
            list(todo)  # the others need not begin
        finally:
            _this_thread.on_torch_threads = False

    parallel(OUTLINED(work), None, n_threads, 0)  # all of the team: those left out of a smaller one would end, and be made anew
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(calls))]


def team_size() -> int:
    """How many threads `on_torch_threads` would use: one within it, or where torch's threads are not those of GNU OpenMP."""
    return 1 if getattr(_this_thread, "on_torch_threads", False) or gomp_parallel() is None else torch.get_num_threads()


_this_thread = threading.local()
OUTLINED = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # the body of a parallel region, as gcc compiles it


@functools.cache
def gomp_parallel() -> Callable[..., None] | None:
    """libgomp's entry into a parallel region, if that library has been loaded (by torch)."""
    try:
        entry = ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW).GOMP_parallel
    except (OSError, AttributeError):  # another OpenMP, or another system
        return None
    entry.argtypes, entry.restype = [OUTLINED, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
    return entry


os.register_at_fork(after_in_child=functools.partial(torch.set_num_threads, 1))
