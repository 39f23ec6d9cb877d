"""A real `trf serve` in a process of its own, on a free port of this machine."""

import queue
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx
from deploy.tiny_models import model

from trflm.deploy.rescorer import Rescorer

PATIENCE = 300.0  # seconds, on a machine however busy


def make_rescorer(place: Path, factor: float = 0.6) -> Path:
    """A directory with a random field and an n-gram model, that maps words to lower case."""
    Rescorer({model("cnn"): factor, model("ngram"): 0.4}, mapping="lower", word_penalty=0.2).save(place)
    return place


class Service:
    """`with Service(directory, "--queue", 0) as service: service.client.post(...)`."""

    def __init__(self, rescorer: Path, *options: object) -> None:
        words = [sys.executable, "-m", "trflm", "serve", rescorer, "--port", 0, "--threads", 1, *options]
        self.process = subprocess.Popen(list(map(str, words)), stderr=subprocess.PIPE, text=True)
        self.said: queue.Queue[str] = queue.Queue()
        self.log: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            self.said.put(line)
        self.said.put("")  # the end

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The next line it says that has this in it."""
        while line := self.said.get(timeout=PATIENCE):
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"it ended without saying {pattern!r}: {''.join(self.log)}")

    def __enter__(self) -> "Service":
        self.url = self.wait_for(r" at (http://\S+)")[1]
        self.client = httpx.Client(base_url=self.url, timeout=PATIENCE)
        self.port = int(self.url.rpartition(":")[2])
        return self

    def __exit__(self, *what: object) -> None:
        self.client.close()
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()

    def metric(self, name: str, headers: dict[str, str] | None = None) -> float:
        """The value of the line of /metrics that begins with this; 0 if there is none."""
        found = [line for line in self.client.get("/metrics", headers=headers).text.splitlines() if line.startswith(name)]
        return sum(float(line.rpartition(" ")[2]) for line in found)

    def wait_for_metric(self, name: str, least: float, headers: dict[str, str] | None = None) -> None:
        """Until it is at least this. `trf_requests_in_progress` tells that a request was let in; to find that out by sending
        others would not do, one of them may take its place."""
        end = time.monotonic() + PATIENCE
        while (now := self.metric(name, headers)) < least:
            assert time.monotonic() < end, f"{name} is {now}, and not {least}: {''.join(self.log)}"
            time.sleep(0.05)
