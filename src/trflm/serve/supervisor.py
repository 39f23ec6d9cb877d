"""Several processes that serve at one address.

They accept from one socket, so whoever is free takes the next connection, and connections that wait outlive a worker. One that
dies is started anew; the requests it held are lost, no others. SIGHUP reaches them one after another: if the first keeps what
it has, because the directory is broken, the others are left alone. SIGTERM reaches all, and each finishes what it has begun.
"""

import asyncio
import os
import shutil
import signal
import socket
import sys
import tempfile
import time

from trflm.serve.settings import Settings
from trflm.serve.telling import KEPT, READY, say

YOUNG = 10.0  # seconds; a worker that dies sooner is started anew a little later each time
LONGEST_PAUSE = 30.0
AFTER_GRACE = 5.0  # seconds more before a worker that does not end is killed
BROKEN = 2  # the status of a worker that could not load the rescorer


class Supervisor:
    def __init__(self, settings: Settings, bound: socket.socket, ready: str) -> None:
        self.settings, self.bound, self.ready = settings, bound, ready
        self.living: dict[int, asyncio.subprocess.Process] = {}  # those that are ready, by number
        self.starting: dict[int, asyncio.subprocess.Process] = {}
        self.news: dict[int, asyncio.Queue[str]] = {}
        self.stopping, self.was_ready, self.status = asyncio.Event(), False, 0
        self.reloading, self.reloads = asyncio.Lock(), 0
        self.tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Until it is told to end; the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        keepers = [asyncio.create_task(self._keep(number)) for number in range(self.settings.workers)]
        await self.stopping.wait()
        self.bound.close()
        for process in (*self.living.values(), *self.starting.values()):
            _signal(process, signal.SIGTERM)
        _, late = await asyncio.wait(keepers, timeout=self.settings.grace + AFTER_GRACE)
        for process in (*self.living.values(), *self.starting.values()):
            _signal(process, signal.SIGKILL)
        if late:
            await asyncio.wait(late)
        return self.status

    async def _keep(self, number: int) -> None:
        """Worker `number`, again and again until the end."""
        pause = 0.0
        while not self.stopping.is_set():
            begun, reloads = time.monotonic(), self.reloads
            process = await self._start()
            self.starting[number], self.news[number] = process, asyncio.Queue()
            await self._listen(number, process, reloads)
            status = await process.wait()
            was_ready = self.living.pop(number, None) is not None
            self.starting.pop(number, None)
            self.news[number].put_nowait("")  # whoever waits for it need not
            _forget(process.pid)
            if self.stopping.is_set():
                return
            if not was_ready and not self.was_ready:  # nothing has ever worked: it would not now
                self.status = status if status == BROKEN else 1
                self.stopping.set()
                return
            pause = 0.0 if time.monotonic() - begun > YOUNG else min(2 * pause + 0.5, LONGEST_PAUSE)
            say(f"worker {process.pid} ended ({_how(status)}); another is started" + (f" in {pause:.1f} s" if pause else ""))
            _count_restart()
            await _first(asyncio.sleep(pause), self.stopping.wait())

    async def _start(self) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "trflm.serve.worker", str(self.bound.fileno()),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, pass_fds=[self.bound.fileno()],
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(f"{self.settings.to_json()}\n".encode())
        return process

    async def _listen(self, number: int, process: asyncio.subprocess.Process, reloads: int) -> None:
        """What the worker tells, until it ends. `reloads` is how many SIGHUPs had come when it was started."""
        assert process.stdout is not None
        async for line in process.stdout:
            word = line.decode().strip()
            if word == READY:
                self.living[number] = self.starting.pop(number)
                if not self.was_ready and len(self.living) == self.settings.workers:
                    self.was_ready = True
                    say(self.ready)
                if self.reloads > reloads:  # it may have read what was there before
                    self._reload()
            else:
                self.news[number].put_nowait(word)

    def _reload(self) -> None:
        self.reloads += 1
        task = asyncio.get_running_loop().create_task(self._reload_each())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _reload_each(self) -> None:
        async with self.reloading:
            for number in sorted(self.living):
                if (process := self.living.get(number)) is None:
                    continue
                _signal(process, signal.SIGHUP)
                if await self.news[number].get() == KEPT:
                    say("the other workers were not told to load it")
                    return


def supervise(settings: Settings, bound: socket.socket, ready: str) -> int:
    """Run the workers; `ready` is said when all of them are. They count in a directory that is removed at the end."""
    folder = tempfile.mkdtemp(prefix="trf-serve-metrics-")
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # before anything here counts; the workers inherit it
    bound.set_inheritable(True)
    try:
        return asyncio.run(Supervisor(settings, bound, ready).run())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _forget(pid: int) -> None:
    """What a dead process had in progress is no more."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(pid)


def _count_restart() -> None:
    from trflm.serve import metrics

    metrics.restarts.inc()


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    if process.returncode is None:
        process.send_signal(number)


def _how(status: int) -> str:
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"status {status}"


async def _first(*things) -> None:
    tasks = [asyncio.ensure_future(thing) for thing in things]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
