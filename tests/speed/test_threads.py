import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from harness import rng

from trflm.speed import threads
from trflm.speed.threads import in_threads, on_torch_threads, team_size

needs_gomp = pytest.mark.skipif(threads.gomp_parallel() is None, reason="torch's threads are not those of GNU OpenMP")


@pytest.mark.parametrize(
    "run", [lambda calls: list(in_threads(calls)), pytest.param(on_torch_threads, marks=needs_gomp)], ids=["threads", "team"]
)
def test_calls_are_made_side_by_side(run, torch_threads):
    """Each waits for the other; results come in order, errors out, and torch's number of threads is the same after."""
    torch_threads(2)
    meeting = threading.Barrier(2, timeout=60)
    assert [n for n, _ in run([lambda n=n: (n, meeting.wait()) for n in range(2)])] == [0, 1]
    assert run([lambda n=n: n for n in range(9)]) == list(range(9))
    with pytest.raises(ZeroDivisionError):
        run([lambda: 1 // 0] * 4)
    assert torch.get_num_threads() == 2


def test_within_a_call_torch_uses_one_thread(torch_threads):
    torch_threads(3)
    assert list(in_threads([torch.get_num_threads] * 4)) == [1] * 4
    assert torch.get_num_threads() == 3


def test_calls_that_have_not_begun_are_dropped_when_nobody_waits_for_them(monkeypatch, torch_threads):
    """All but the first call wait until the pool ends: two have begun by then, or are just beginning."""
    begun, ending = [], threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, *arguments, **options) -> None:
            ending.set()
            super().shutdown(*arguments, **options)

    monkeypatch.setattr(threads, "ThreadPoolExecutor", Pool)
    torch_threads(2)
    results = in_threads([lambda n=n: begun.append(n) or (n and ending.wait()) for n in range(100)])
    next(iter(results))
    results.close()
    assert torch.get_num_threads() == 2
    assert len(begun) <= 3


class Watched(list):
    """A list that tells when it has been gone through."""

    def __init__(self, items) -> None:
        super().__init__(items)
        self.end = threading.Event()

    def __iter__(self):
        self.items = super().__iter__()
        return Watching(self)


class Watching:
    def __init__(self, watched: Watched) -> None:
        self.watched = watched

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return next(self.watched.items)
        except StopIteration:
            self.watched.end.set()
            raise


@needs_gomp
def test_a_team_stops_at_the_first_error(torch_threads):
    """Both threads are in a call when one fails; the other, held until the calls are dropped, begins none of them."""
    begun, meeting = [], threading.Barrier(2, timeout=60)

    def call(n: int) -> None:
        begun.append(n)
        if n < 2:
            meeting.wait()
        if n == 0:
            raise KeyError("first")
        if n == 1:
            calls.end.wait(timeout=60)

    calls = Watched([lambda n=n: call(n) for n in range(100)])
    torch_threads(2)
    with pytest.raises(KeyError, match="first"):
        on_torch_threads(calls)
    assert sorted(begun) == [0, 1]


@needs_gomp
def test_a_team_within_a_team_is_one_thread(torch_threads):
    torch_threads(2)
    assert team_size() == 2
    inner = on_torch_threads([lambda: (team_size(), on_torch_threads([threading.get_native_id] * 3)) for _ in range(2)])
    assert all(size == 1 and len(set(ids)) == 1 for size, ids in inner)
    assert team_size() == 2


def test_a_team_computes_what_one_thread_does(torch_threads):
    """Large products and sums: torch would divide them between its threads."""
    a, b = torch.randn(300, 400, generator=rng(0)), torch.randn(400, 500, generator=rng(1))
    torch_threads(2)
    for product, total in on_torch_threads([lambda: (a @ b, a.sum(1))] * 5):
        torch.testing.assert_close(product, a @ b)
        torch.testing.assert_close(total, a.sum(1))


def test_without_gnu_openmp_calls_are_simply_made(monkeypatch, torch_threads):
    monkeypatch.setattr(threads, "gomp_parallel", lambda: None)
    torch_threads(2)
    assert team_size() == 1
    assert set(on_torch_threads([threading.get_native_id] * 3)) == {threading.get_native_id()}
