"""What an operator watches, in the text format of Prometheus.

One process counts in memory. Several count in files of a directory that `PROMETHEUS_MULTIPROC_DIR` names, and each of them can
show the sum of all: the supervisor sets that name before this module is imported.
"""

import os
from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

_registry = CollectorRegistry()
requests = Counter("trf_requests", "Requests answered.", ["endpoint", "status"], registry=_registry)
seconds = Histogram(
    "trf_request_seconds", "From the first byte of a request to the last of its answer.", ["endpoint"], buckets=SECONDS,
    registry=_registry,
)  # fmt: skip
waiting_seconds = Histogram("trf_waiting_seconds", "Waiting for a thread to score.", buckets=SECONDS, registry=_registry)
scoring_seconds = Histogram(
    "trf_scoring_seconds", "Reading, scoring and writing one answer.", buckets=SECONDS, registry=_registry
)
in_progress = Gauge(
    "trf_requests_in_progress",
    "Requests that were let in and are not answered.",
    multiprocess_mode="livesum",
    registry=_registry,
)
capacity = Gauge("trf_requests_capacity", "How many may be let in at once.", multiprocess_mode="livesum", registry=_registry)
refused = Counter("trf_requests_refused", "Requests sent away with 503, because the queue was full.", registry=_registry)
lists = Counter("trf_lists", "Lists rescored.", registry=_registry)
hypotheses = Counter("trf_hypotheses", "Hypotheses rescored.", registry=_registry)
words = Counter("trf_words", "Words of the hypotheses rescored.", registry=_registry)
unknown_words = Counter(
    "trf_unknown_words", "Words of the hypotheses rescored that a model does not know.", ["lm"], registry=_registry
)
changed = Counter("trf_lists_changed", "Lists in which another hypothesis than the first won.", registry=_registry)
reloads = Counter("trf_reloads", "Reloads of the rescorer by SIGHUP.", ["outcome"], registry=_registry)
serving = Gauge(
    "trf_rescorer_workers", "Processes that serve this rescorer.", ["sha256"], multiprocess_mode="livesum", registry=_registry
)
restarts = Counter("trf_worker_restarts", "Processes started anew because one had died.", registry=_registry)


def count_list(answer: Mapping[str, Any]) -> None:
    """A list that was rescored."""
    lists.inc()
    hypotheses.inc(len(answer["scores"]))
    words.inc(sum(answer["n_words"]))
    for name, of in answer["lms"].items():
        unknown_words.labels(name).inc(sum(of["oov"]))
    if answer["order"][0] != 0:
        changed.inc()


def serves(sha256: str | None, before: str | None = None) -> None:
    """This process serves this rescorer from now on."""
    if before is not None:
        serving.labels(before).set(0)
    serving.labels(sha256 or "").set(1)


def page() -> bytes:
    """All of it, of all processes."""
    if os.environ.get(FOLDER):
        every = CollectorRegistry()
        MultiProcessCollector(every)
        return generate_latest(every)
    return generate_latest(_registry)


if not os.environ.get(FOLDER):
    ProcessCollector(registry=_registry)
