"""`trf serve` against the engine called directly on the same lists: throughput, and what it adds to the time of one list.

The rescorer is the paper's CNN with random weights, 10,000 words; both sides have one thread. In each round eight clients send
lists to a service in a process of its own, each the next one when it has its answer; then the Rescorer is called on the same
lists in this process. Throughput is lists a second of processor time, of the service and of this process: other programs
disturb that least, and the clients do not count. The wall clock is printed beside it. `serve-vs-engine` is the throughput for
100-best lists, the lines above say it for 20-best ones too. Latency: one client, 20-best lists, each sent and then scored
directly, on the wall clock, and in processor time of client and service together: on a machine that has other work to do the
wall clock mostly tells how long each of them waits for a core. `together-vs-alone` is what the model would gain by scoring
eight 20-best lists in one call; by how much scores would change is said before it (weights are drawn so wide that scores spread
as those of a trained model do).
"""

import argparse
import http.client
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from lists import made_up, made_up_text, made_up_vocab
from measure import arguments, report

from trflm.deploy.rescorer import Rescorer
from trflm.evaluation.second_pass.scores import FirstPass
from trflm.experiment.progress import progress
from trflm.experiment.recipe import parse_recipe
from trflm.experiment.run import run_recipe
from trflm.language_model import LanguageModel
from trflm.text import Batch, Vocab

CLIENTS = 8
DEPTHS = 20, 100  # hypotheses of a list
PAPER = {"kind": "cnn", "embedding": 256, "projection": 128, "bank_width": 10, "bank_filters": 128, "stack_layers": 3,
         "stack_width": 3, "stack_filters": 128, "init": 0.25}  # fmt: skip

Request = tuple[list[str], list[float]]  # hypotheses and acoustic scores


def main() -> None:
    parsed = arguments(__doc__ or "", lambda parser: parser.set_defaults(threads=1))
    n_lists, rounds = (24, 4) if parsed.quick else (64, 10)
    rng = np.random.default_rng(0)
    vocab = made_up_vocab(10_000)
    lists = {depth: [made_up_list(rng, vocab, depth) for _ in range(n_lists)] for depth in DEPTHS}
    with tempfile.TemporaryDirectory() as place:
        make_rescorer(Path(place), vocab, rng)
        with service(Path(place) / "rescorer") as (pid, port), Clients(port) as clients:
            compare(parsed, Rescorer.load(Path(place) / "rescorer"), pid, clients, lists, rounds)


def compare(
    parsed: argparse.Namespace,
    rescorer: Rescorer,
    pid: int,
    clients: "Clients",
    lists: dict[int, list[Request]],
    rounds: int,
) -> None:
    check(rescorer, clients, lists[20])
    seconds: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        seconds.setdefault(name, []).append(value)

    for number in range(-1, rounds):  # the first one warms up
        for depth, some in lists.items():
            bodies = [body(request) for request in some]
            wall, used = time.perf_counter(), cpu_seconds(pid)
            clients.send(bodies)
            served = time.perf_counter() - wall, cpu_seconds(pid) - used
            wall, used = time.perf_counter(), time.process_time()
            for texts, acoustic in some:
                rescorer(texts, acoustic)
            direct = time.perf_counter() - wall, time.process_time() - used
            if number >= 0:
                for side, taken in (("service", served), ("engine", direct)):
                    for what, value in zip(("wall", "processor"), taken, strict=True):
                        add(f"{side}, {depth}-best, {what}", value / len(some))
        for request in lists[20]:
            raw = body(request)
            wall, used = time.perf_counter(), cpu_seconds(pid) + time.process_time()
            clients.ask(raw)
            sent = time.perf_counter() - wall, cpu_seconds(pid) + time.process_time() - used
            wall, used = time.perf_counter(), time.process_time()
            rescorer(*request)
            direct = time.perf_counter() - wall, time.process_time() - used
            for side, taken in (("sent", sent), ("scored directly", direct)):
                for what, value in zip(("wall", "processor"), taken, strict=True):
                    if number >= 0:
                        add(f"a 20-best list {side}, {what}", value)
        for name, value in scored_together(rescorer, lists[20]).items():
            if number >= 0:
                add(name, value)

    median = {name: statistics.median(values) for name, values in seconds.items()}
    for depth in DEPTHS:
        for what in ("wall", "processor"):
            ratio = median[f"engine, {depth}-best, {what}"] / median[f"service, {depth}-best, {what}"]
            print(f"{depth}-best lists: throughput of the service {ratio:.2f} of the engine's, {what} time")
    added = {what: 1000 * added_seconds(seconds, what) for what in ("wall", "processor")}
    print(f"median added latency of a 20-best list: {added['wall']:.2f} ms, {added['processor']:.2f} ms of it on a core")
    worst = together_difference(rescorer, lists[20])
    print(f"scores of lists in one call differ from those of lists alone by up to {worst:.1e}")
    ratios = {
        "serve-vs-engine": median["engine, 100-best, processor"] / median["service, 100-best, processor"],
        "together-vs-alone": median["eight lists, a call each"] / median["eight lists in one call"],
    }
    settings = {"lists": len(lists[20]), "depths": DEPTHS, "clients": CLIENTS, "rounds": rounds}
    report(parsed, {**settings, "added_milliseconds": added, "together_differs_by": worst}, seconds, ratios)


def added_seconds(seconds: dict[str, list[float]], what: str) -> float:
    pairs = zip(*(seconds[f"a 20-best list {side}, {what}"] for side in ("sent", "scored directly")), strict=True)
    return statistics.median(sent - direct for sent, direct in pairs)


def made_up_list(rng: np.random.Generator, vocab: Vocab, depth: int) -> Request:
    """The best paths of a made-up confusion network of some 18 words."""
    length = int(np.clip(round(rng.gamma(6.0, 3.0)), 6, 45))
    texts = spelled(made_up(rng, length, depth), vocab)
    return texts, [round(float(score), 3) for score in -300 + rng.normal(0, 3, len(texts))]


def spelled(batch: Batch, vocab: Vocab) -> list[str]:
    return [" ".join(vocab.words[i] for i in ids.tolist()) for ids in batch.ids_N.split(batch.lengths_B.tolist())]


def make_rescorer(place: Path, vocab: Vocab, rng: np.random.Generator) -> None:
    """PLACE/rescorer: one step of training, so that all files are there."""
    (place / "words.txt").write_text(vocab.to_text())
    (place / "text.txt").write_text("\n".join(spelled(made_up_text(rng, 50), vocab)) + "\n")
    recipe = {
        "data": {"train": str(place / "text.txt"), "vocab": str(place / "words.txt")},
        "model": PAPER,
        "learner": {"kind": "nce", "batch": 50},
        "run": {"epochs": 1, "threads": 1},
    }
    run_recipe(parse_recipe(recipe, "benchmarks/serve.py"), place / "cnn", False, progress(True))
    Rescorer({place / "cnn": 0.7}, word_penalty=0.2).save(place / "rescorer")


@contextmanager
def service(rescorer: Path) -> Iterator[tuple[int, int]]:
    """(process, port) of a service with one thread."""
    words = [sys.executable, "-m", "trflm", "serve", str(rescorer), "--port", "0", "--threads", "1"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = next((m for line in process.stderr if (m := re.search(r"serving .*:(\d+)$", line))), None)
        if found is None:
            raise SystemExit("the service did not start")
        yield process.pid, int(found[1])
    finally:
        process.terminate()
        process.wait()


class Clients:
    """CLIENTS connections that stay open, a thread each."""

    def __init__(self, port: int) -> None:
        self.connections = [http.client.HTTPConnection("127.0.0.1", port) for _ in range(CLIENTS)]
        self.threads = ThreadPoolExecutor(CLIENTS)

    def __enter__(self) -> "Clients":
        return self

    def __exit__(self, *error: object) -> None:
        self.threads.shutdown()
        for connection in self.connections:
            connection.close()

    def send(self, bodies: Sequence[bytes]) -> None:
        """All of them; a client sends its next one when it has its answer."""

        def run(number: int) -> None:
            for raw in bodies[number::CLIENTS]:
                self.ask(raw, number)

        list(self.threads.map(run, range(CLIENTS)))

    def ask(self, raw: bytes, number: int = 0) -> bytes:
        connection = self.connections[number]
        connection.request("POST", "/v1/rescore", raw, {"content-type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise SystemExit(f"the service answered {answer.status}: {content[:500]!r}")
        return content


def body(request: Request) -> bytes:
    return json.dumps({"hypotheses": request[0], "acoustic": request[1]}).encode()


def check(rescorer: Rescorer, clients: Clients, lists: Sequence[Request]) -> None:
    """Both sides say the same."""
    for request in lists:
        answer, direct = json.loads(clients.ask(body(request))), rescorer(*request)
        assert answer["best"] == direct.best
        assert np.allclose(answer["scores"], direct.scores, atol=1e-6, rtol=0)


def cpu_seconds(pid: int) -> float:
    """What a process, all its threads, has had of a core: the clock that Linux keeps of every process."""
    return time.clock_gettime((~pid << 3) | 2)


def model_of(rescorer: Rescorer) -> LanguageModel:
    (model,) = rescorer.models.values()
    assert not isinstance(model, FirstPass)
    return model


def scored_together(rescorer: Rescorer, lists: Sequence[Request]) -> dict[str, float]:
    """Processor time of the model for eight lists, one by one and in one call; the mean over the lists."""
    model, starts = model_of(rescorer), range(0, len(lists), CLIENTS)
    seconds = {"eight lists, a call each": 0.0, "eight lists in one call": 0.0}
    for start in starts:
        some = [texts for texts, _ in lists[start : start + CLIENTS]]
        before = time.process_time()
        for texts in some:
            model.log_prob(texts)
        middle = time.process_time()
        model.log_prob([text for texts in some for text in texts])
        seconds["eight lists, a call each"] += (middle - before) / len(starts)
        seconds["eight lists in one call"] += (time.process_time() - middle) / len(starts)
    return seconds


def together_difference(rescorer: Rescorer, lists: Sequence[Request]) -> float:
    model = model_of(rescorer)
    worst = 0.0
    for start in range(0, len(lists), CLIENTS):
        some = [texts for texts, _ in lists[start : start + CLIENTS]]
        alone = torch.cat([model.log_prob(texts) for texts in some])
        worst = max(worst, float((alone - model.log_prob([text for texts in some for text in texts])).abs().max()))
    return worst


if __name__ == "__main__":
    main()
