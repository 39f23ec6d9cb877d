"""Who may score now, who waits, who is sent away; and the Rescorer that is in use.

Scoring runs in threads, off the event loop, one list a thread: torch itself then uses one. As many requests as there are
threads are scored, `queue` more wait, and the next one is sent away (BusyError) before its body is read.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

from trflm.deploy.rescorer import Rescorer
from trflm.evaluation.second_pass.scores import FirstPass
from trflm.serve import metrics
from trflm.serve.errors import BusyError
from trflm.serve.settings import Settings

T = TypeVar("T")


class Pool:
    def __init__(self, settings: Settings, rescorer: Rescorer) -> None:
        self.rescorer = rescorer  # replaced whole by a reload; a request uses the one it began with
        self.most, self.now = settings.threads + settings.queue, 0
        self.threads, self.leaving = settings.threads, asyncio.Event()  # set when the server is about to end
        self.executor = ThreadPoolExecutor(settings.threads, "score", torch.set_num_threads, (1,))
        metrics.capacity.set(self.most)
        metrics.serves(rescorer.sha256)

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Around a whole request, from before its body is read."""
        if self.now >= self.most:
            metrics.refused.inc()
            raise BusyError(f"{self.now} requests are being answered or wait, and no more may; try again in a second")
        self.now += 1
        metrics.in_progress.inc()
        try:
            yield
        finally:
            self.now -= 1
            metrics.in_progress.dec()

    async def run(self, call: Callable[[Rescorer], T]) -> T:
        """The result of this call in a thread. What has begun is finished, also if nobody waits for it any more."""
        asked = time.perf_counter()

        def work() -> T:
            begun = time.perf_counter()
            metrics.waiting_seconds.observe(begun - asked)
            try:
                return call(self.rescorer)
            finally:
                metrics.scoring_seconds.observe(time.perf_counter() - begun)

        return await asyncio.get_running_loop().run_in_executor(self.executor, work)

    def replace(self, rescorer: Rescorer) -> None:
        """From the next call on."""
        metrics.serves(rescorer.sha256, self.rescorer.sha256)
        self.rescorer = rescorer


def load(settings: Settings) -> Rescorer:
    """Loaded, checked against its hashes, and used once, so that the first request does not wait for what is made late."""
    rescorer = Rescorer.load(settings.rescorer, settings.bf16)
    for model in rescorer.models.values():
        if not isinstance(model, FirstPass):
            words = [word for word in model.vocab.words[1:8] if word.split() == [word]] or ["a"]
            sentences = [" ".join(words), " ".join(words[::-1])]
            model.log_prob(sentences)
            model.explain(sentences)
    return rescorer
