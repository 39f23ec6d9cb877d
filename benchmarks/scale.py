"""How training and rescoring grow from one core to two of one machine.

Steps of cloze learning at the paper's size (--batch sentences, --shards of a step) by two processes of one thread each, as
torchrun runs them, by one process with two threads that computes the same shards, and by one with two threads that does not cut
its steps; in turn: who has no turn waits. 1 is level.

    two-processes-vs-two-threads   the same computation, to the bit but for the threads: what the way of sharing costs or gains
    two-processes-vs-uncut         also what the cut costs: distinct words are shared by the sentences of a shard alone

With the times come the bytes that a process sends in a step, and the memory of a process.

`two-ray-workers-vs-one`: the same n-best lists (--lists) rescored by the workers of `trf rescore --ray`, two against one, on
one Ray that is there already: the job as a whole; what follows the first list, before which workers start and load the model;
and the middle of the job, from the first quarter to the last twelfth, where all workers are at work, which is what a job of
hours has. One worker takes w seconds of a core a list and cannot be faster than that; two share the cores with the d seconds of
all other processes. So two are at most 2 w / (w + d) times as fast on two cores, by the processor time of the middle of a job.
The processor times, and how many cores went to what else ran on the machine, are told on Linux.
"""

import argparse
import functools
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from lists import make_lists
from measure import arguments, interleaved, report, training_text

from trflm.deploy import on_ray
from trflm.deploy.rescorer import Rescorer
from trflm.evaluation.formats import write_jsonl
from trflm.evaluation.nbest import NBestList
from trflm.evaluation.second_pass.files import ListFiles
from trflm.experiment.directory import RunDirectory
from trflm.experiment.recipe import FieldRecipe, parse_recipe
from trflm.experiment.store import save_fixed_parts, save_model
from trflm.learning.loop import Learner
from trflm.learning.shards import Shards
from trflm.seeds import generator
from trflm.speed.memory import keep_freed_memory
from trflm.speed.workers import workers
from trflm.text import Batch, Vocab

PROCESSES = 2
WARM = 16  # lists of a job that warms up


def recipe_of(text: Path, batch: int) -> FieldRecipe:
    """The paper's CNN, taught by cloze."""
    learner = {"kind": "cloze", "batch": batch}
    sections = {"data": {"train": str(text)}, "model": {"kind": "cnn"}, "reference": {"order": 1}, "learner": learner}
    recipe = parse_recipe(sections, "scale.py")
    assert isinstance(recipe, FieldRecipe)
    return recipe


def write_text(sentences: Batch, path: Path) -> None:
    rows = sentences.ids_N.split(sentences.lengths_B.tolist())
    path.write_text("".join(" ".join(f"w{i}" for i in ids.tolist()) + "\n" for ids in rows))


def memory_mb() -> float:
    """The most that this process has had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM:"))


def serve(rank: int, size: int, threads: int, shards: int, batch: int, port: int, text: Path, pipe: Connection) -> None:
    """A process of one side: on each word through the pipe so many steps, then a word back."""
    own = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in own.items()}, MASTER_ADDR="127.0.0.1")
    torch.set_num_threads(threads)
    keep_freed_memory()  # as `trf train` does
    with workers("cpu") as team:
        recipe = recipe_of(text, batch)
        data = recipe.data.read()
        learner: Learner = recipe.build(data, fresh=True, shards=Shards(shards, team))
        number = 0
        while steps := pipe.recv():
            for _ in range(steps):
                learner.step(number, generator(1, "step", number))
                number += 1
            pipe.send(memory_mb())


class Side:
    """Processes that train together, on demand."""

    def __init__(self, size: int, threads: int, shards: int, batch: int, text: Path) -> None:
        context, port = multiprocessing.get_context("spawn"), free_port()
        self.pipes, self.processes, self.memory = [], [], [0.0] * size
        for rank in range(size):
            here, there = context.Pipe()
            process = context.Process(target=serve, args=(rank, size, threads, shards, batch, port, text, there))
            process.start()
            self.pipes.append(here)
            self.processes.append(process)

    def steps(self, count: int) -> None:
        for pipe in self.pipes:
            pipe.send(count)
        self.memory = [pipe.recv() for pipe in self.pipes]

    def end(self) -> None:
        for pipe in self.pipes:
            pipe.send(0)
        for process in self.processes:
            process.join()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def bytes_sent(n_parameters: int, size: int) -> float:
    """By a process in a step: its slice of every other's gradient out, its own sums out again, 4 bytes a number."""
    return 2 * 4 * n_parameters * (size - 1) / size


Found = tuple[dict[str, list[float]], dict[str, Any], dict[str, float]]  # (seconds of each side, what else, the ratios)


def training(directory: Path, parsed: argparse.Namespace) -> Found:
    sentences, n_words, source = training_text(parsed.data, 5000)
    write_text(sentences, directory / "text.txt")
    recipe = recipe_of(directory / "text.txt", parsed.batch)
    learner = recipe.build(recipe.data.read(), fresh=False)
    n_parameters = sum(p.numel() for p in getattr(learner, "descent").theta)  # noqa: B009
    sides = {
        "two processes": Side(PROCESSES, 1, parsed.shards, parsed.batch, directory / "text.txt"),
        "two threads": Side(1, PROCESSES, parsed.shards, parsed.batch, directory / "text.txt"),
        "uncut": Side(1, PROCESSES, 1, parsed.batch, directory / "text.txt"),
    }
    steps, rounds = (2, 3) if parsed.quick else (10, 9)
    for side in sides.values():
        side.steps(1)  # everything is loaded and compiled
    seconds = interleaved(
        {name: functools.partial(side.steps, steps) for name, side in sides.items()}, rounds, now=time.perf_counter
    )
    seconds = {f"{name}, a step": [value / steps for value in values] for name, values in seconds.items()}
    about = {
        "source": source, "vocabulary": n_words, "shards": parsed.shards, "batch": parsed.batch, "parameters": n_parameters,
        "bytes sent by a process in a step": bytes_sent(n_parameters, PROCESSES),
        "peak MB a process": {name: side.memory for name, side in sides.items()},
    }  # fmt: skip
    for side in sides.values():
        side.end()
    medians = {name: statistics.median(seconds[f"{name}, a step"]) for name in sides}
    ours = medians["two processes"]
    ratios = {f"two-processes-vs-{name.replace(' ', '-')}": medians[name] / ours for name in ("two threads", "uncut")}
    return seconds, about, ratios


def make_rescorer(directory: Path, vocab: Vocab, text: Batch, snapshots: int) -> Path:
    """The paper's CNN, of so many snapshots, all with parameters as they start: the time of a list does not depend on them."""
    (directory / "lm.txt").write_text("\n".join(vocab.sentences(text.select(torch.arange(2000)))) + "\n")
    (directory / "vocab.txt").write_text(vocab.to_text())
    texts, run = {"train": str(directory / "lm.txt"), "vocab": str(directory / "vocab.txt")}, directory / "cnn"
    recipe = parse_recipe({"data": texts, "model": {"kind": "cnn"}}, "scale.py")
    assert isinstance(recipe, FieldRecipe)
    data = recipe.data.read()
    (run / "snapshots").mkdir(parents=True)
    model, names = recipe.build(data, fresh=True).model, [f"{number}.safetensors" for number in range(snapshots)]
    for name in names:
        save_model(run / "snapshots" / name, model)
    with RunDirectory(run, recipe, data):
        save_fixed_parts(run, model)
        save_model(run / "model.safetensors", model, snapshots=names)
    Rescorer({run: 0.7}).save(directory / "rescorer")
    return directory / "rescorer"


def rescoring(directory: Path, parsed: argparse.Namespace) -> Found:
    import numpy as np

    n_lists, rounds = parsed.lists or (24 if parsed.quick else 600), 2 if parsed.quick else parsed.rounds
    made = make_lists(None, n_lists)
    rescorer = make_rescorer(directory, made.vocab, made.text, parsed.snapshots)
    rng = np.random.default_rng(0)
    lists = []
    for number, batch in enumerate(made.lists):
        texts = made.vocab.sentences(batch)
        lists.append(NBestList(f"utt{number}", texts, {"acoustic": rng.normal(-100, 5, len(texts))}))
    write_jsonl(lists, directory / "lists.jsonl")
    job = on_ray.Job(ListFiles(directory / "lists.jsonl"), rescorer, Rescorer.load(rescorer).sha256)
    results: dict[int, list[str]] = {}
    moments: dict[int, list[tuple[Moment, ...]]] = {1: [], 2: []}  # start, first list, a quarter, eleven twelfths
    seen = 1, n_lists // 4, 11 * n_lists // 12

    def rescore(count: int) -> None:
        found, results[count], now = on_ray.lines(job, 0, count), [], [Moment.now()]
        for number, line in enumerate(found, 1):
            results[count].append(line)
            if number in seen:
                now.append(Moment.now())
        moments[count].append(tuple(now))

    started = time.perf_counter()
    with on_ray.connected(None, 2, 1):
        about: dict[str, Any] = {
            "lists": n_lists,
            "snapshots": parsed.snapshots,
            "seconds to start Ray": time.perf_counter() - started,
        }
        for count in (1, 2):  # files are read and loops compiled
            list(on_ray.lines(job, max(n_lists - WARM, 0), count))
        print("rescoring: Ray has started, and each worker has had lists", flush=True)
        sides = {f"{count} Ray workers": functools.partial(rescore, count) for count in (1, 2)}
        seconds = interleaved(sides, rounds, warm_up=False, now=time.perf_counter)
    assert results[1] == results[2]
    assert len(results[1]) == n_lists
    whole = {count: statistics.median(seconds[f"{count} Ray workers"]) for count in (1, 2)}
    first = {count: statistics.median(m[1].wall - m[0].wall for m in moments[count]) for count in (1, 2)}
    middle = {count: statistics.median(m[3].wall - m[2].wall for m in moments[count]) for count in (1, 2)}
    ratios = {
        "two-ray-workers-vs-one": whole[1] / whole[2],
        "two-ray-workers-vs-one, after the first list": (whole[1] - first[1]) / (whole[2] - first[2]),
        "two-ray-workers-vs-one, in the middle": middle[1] / middle[2],
    }
    about["seconds to the first list"] = first
    about["ms a list in the middle"] = {count: 1000 * middle[count] / (seen[2] - seen[1]) for count in middle}
    if moments[1][0][0].cores:
        spent = {count: [m[3].since(m[2], seen[2] - seen[1]) for m in moments[count]] for count in (1, 2)}
        ms = {
            count: {name: statistics.median(one[name] for one in spent[count]) for name in spent[count][0]} for count in spent
        }
        about["ms of processor time a list"] = {count: {k: ms[count][k] for k in (WORKERS, OTHERS)} for count in ms}
        about["cores that the rest of the machine had, in each round"] = {c: [one[BESIDE] for one in spent[c]] for c in spent}
        ratios["two-ray-workers-vs-one, at most"] = 2 * ms[1][WORKERS] / (ms[2][WORKERS] + ms[2][OTHERS])
    return seconds, about, ratios


WORKERS, OTHERS, BESIDE = "workers", "all others", "beside"


@dataclass(frozen=True)
class Moment:
    """What the clocks show."""

    wall: float
    ours: dict[int, tuple[str, float]]  # process -> its name, seconds on a core; of this one and all below it
    cores: float  # seconds that all cores were busy; 0 where there is no /proc

    @classmethod
    def now(cls) -> "Moment":
        return cls(time.perf_counter(), processor_times(), machine_time())

    def since(self, before: "Moment", n_lists: int) -> dict[str, float]:
        """ms of processor time a list of the workers and of all others of us; how many cores all that is not ours had."""
        spent = {WORKERS: 0.0, OTHERS: 0.0}
        for process, (name, seconds) in self.ours.items():  # Ray renames a process with what it does
            who = WORKERS if name.startswith("ray::MapWorker") else OTHERS
            spent[who] += seconds - before.ours.get(process, (name, 0.0))[1]
        beside = (self.cores - before.cores - sum(spent.values())) / (self.wall - before.wall)
        return {who: round(1000 * seconds / n_lists, 1) for who, seconds in spent.items()} | {BESIDE: round(beside, 2)}


def machine_time() -> float:
    try:
        user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:8])
    except OSError:
        return 0.0
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def processor_times() -> dict[int, tuple[str, float]]:
    """process -> its name, seconds on a core; of this process and all below it; nothing where there is no /proc."""
    parent: dict[int, int] = {}
    found: dict[int, tuple[str, float]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            name = (place / "cmdline").read_text().split("\0")[0]
        except OSError:  # it has just ended
            continue
        parent[int(place.name)] = int(fields[1])
        found[int(place.name)] = name, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    times: dict[int, tuple[str, float]] = {}
    for process in found:
        at = process
        while at != os.getpid() and at in parent:
            at = parent[at]
        if at == os.getpid():
            times[process] = found[process]
    return times


def main() -> None:
    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--shards", type=int, default=8, help="of a step")
        parser.add_argument("--batch", type=int, default=200, help="sentences of a step")
        parser.add_argument("--lists", type=int, default=0, help="to rescore")
        parser.add_argument("--snapshots", type=int, default=1, help="of the field that rescores; the paper's has 10")
        parser.add_argument("--rounds", type=int, default=5, help="of rescoring")
        parser.add_argument("--only", choices=("training", "rescoring"), help="one of the two comparisons")

    parsed = arguments(__doc__ or "", more)
    seconds: dict[str, list[float]] = {}
    settings: dict[str, Any] = {}
    ratios: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, work in (("training", training), ("rescoring", rescoring)):
            if parsed.only in (None, name):
                started = time.monotonic()
                of_side, settings[name], more_ratios = work(Path(scratch), parsed)
                seconds |= of_side
                ratios |= more_ratios
                print(f"{name}: {settings[name]}, {time.monotonic() - started:.0f} s in all")
    report(parsed, settings, seconds, ratios)


if __name__ == "__main__":
    main()
