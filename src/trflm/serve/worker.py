"""One process that serves.

By itself it is all of `trf serve`. As one of several it gets its settings on stdin, tells its supervisor on stdout what has
happened (`ready`, `loaded`, `kept`), and ends when stdin does, that is when the supervisor has died.
"""

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import torch
import uvicorn

from trflm.errors import InputError
from trflm.serve import metrics
from trflm.serve.app import application
from trflm.serve.pool import Pool, load
from trflm.serve.settings import Settings
from trflm.serve.telling import KEPT, LOADED, READY, say
from trflm.speed.memory import keep_freed_memory

WAITING = 2048  # connections that the kernel keeps for us
KEEP_ALIVE = 75  # seconds that an idle connection stays open
SWITCH = 0.0005  # seconds after which a thread that scores lets the event loop run


class Server(uvicorn.Server):
    """uvicorn's, with signals handled by us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Worker:
    def __init__(self, settings: Settings, bound: socket.socket, tell: Callable[[str], None]) -> None:
        self.settings, self.bound, self.tell = settings, bound, tell
        self.server: Server | None = None
        self.pool: Pool | None = None
        self.stopping, self.reloading = False, asyncio.Lock()
        self.tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until SIGTERM or SIGINT, and what has begun is finished. A rescorer that cannot be loaded is an InputError."""
        keep_freed_memory()
        sys.setswitchinterval(SWITCH)
        torch.set_num_threads(1)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        self.pool = Pool(self.settings, await asyncio.to_thread(load, self.settings))
        config = uvicorn.Config(
            application(self.settings, self.pool),
            loop="asyncio",
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=int(self.settings.grace),
            backlog=1,  # take connections one by one, so that workers share them; how many may wait is said below
        )
        self.server = Server(config)
        if self.stopping:
            return
        started = asyncio.create_task(self._started())
        await self.server.serve(sockets=[self.bound])
        started.cancel()
        self.pool.executor.shutdown(wait=not self.server.force_exit, cancel_futures=True)

    async def _started(self) -> None:
        assert self.server is not None
        while not self.server.started:
            await asyncio.sleep(0.01)
        self.bound.listen(WAITING)
        self.tell(READY)

    def stop(self) -> None:
        """Finish what has begun; the second time, at once."""
        if self.server is not None and self.pool is not None:
            self.server.force_exit = self.stopping
            self.server.should_exit = True
            self.pool.leaving.set()
        self.stopping = True

    def reload(self) -> None:
        task = asyncio.get_running_loop().create_task(self._reload())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _reload(self) -> None:
        """Load the directory anew beside the old one, then use it. If it cannot be loaded, the old one stays."""
        async with self.reloading:
            if self.pool is None:  # it is being loaded for the first time
                return
            try:
                self.pool.replace(await asyncio.to_thread(load, self.settings))
            except Exception as error:  # also what no reader foresaw: the service must go on
                metrics.reloads.labels("kept").inc()
                say(f"{error}; the rescorer {(self.pool.rescorer.sha256 or '')[:12]} stays in use")
                self.tell(KEPT)
            else:
                metrics.reloads.labels("loaded").inc()
                say(f"loaded {self.settings.rescorer}: {(self.pool.rescorer.sha256 or '')[:12]}")
                self.tell(LOADED)


async def _worker(settings: Settings, bound: socket.socket) -> None:
    worker = Worker(settings, bound, lambda word: print(word, flush=True))

    def alone() -> None:
        if not sys.stdin.buffer.read1(1):  # pyright: ignore[reportAttributeAccessIssue]
            asyncio.get_running_loop().remove_reader(0)
            worker.stop()

    asyncio.get_running_loop().add_reader(0, alone)
    await worker.run()


def main() -> None:
    """`python -m trflm.serve.worker FD`: the number of the socket that was inherited."""
    try:
        settings = Settings.from_json(sys.stdin.readline())
        asyncio.run(_worker(settings, socket.socket(fileno=int(sys.argv[1]))))
    except InputError as error:
        say(error)
        sys.exit(2)


if __name__ == "__main__":
    main()
