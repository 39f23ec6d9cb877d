"""Every n-th system call by which a command reads its files or changes any, failed or killed once: nothing is lost, nothing is
said that is not so, and the command, given again, ends as if nothing had been.

    python -m tests.faults                # every call of every command
    python -m tests.faults --kinds        # one fault for all calls of one name and file

tests/faults.c counts the calls (open, read, opendir; create, write, close, sendfile, rename, fsync, truncate, mkdir, unlink,
rmdir, link; pipe); it is compiled here and preloaded. A write that fails or kills has written half of its bytes.
"""

import argparse
import ctypes
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from commands import TINY_NGRAM, TINY_TEXT, tiny_recipe

KILL = 0
READS = ("open", "read", "opendir")  # there is nothing to see in a kill that comes before a file is changed
MOST_MESSAGE = 2048
LISTS = "".join(f"u{u}-{n} {words}\n" for u in range(3) for n, words in enumerate(["the cat ran", "a cat ran", "ran"], 1))
SCORES = "".join(f"u{u}-{n} {-10.0 - u - n}\n" for u in range(3) for n in range(1, 4))
REFERENCES = "".join(f"u{u} a cat ran\n" for u in range(3))
FILES = ("--nbest", "lists.txt", "--acoustic", "lists.ac")
RESCORE = ("rescore", *FILES, "--ref", "ref.txt", "--lm", "kn", "--scale", "2", "--scores")
TABLES = """
title = "A table"
baseline = "kn"
[text]
train = "text.txt"
valid = "text.txt"
test = "text.txt"
[dev]
nbest = "lists.txt"
acoustic = "lists.ac"
ref = "ref.txt"
[test]
nbest = "lists2.txt"
acoustic = "lists.ac"
ref = "ref.txt"
[[row]]
name = "kn"
label = "KN3"
"""


@dataclass(frozen=True)
class Case:
    """A command, given in a directory; `out` is what it makes."""

    words: tuple[str, ...]
    out: str
    again: tuple[str, ...] | None = None  # added when it is given again; None: `out` appears in one move, and is then whole

    @property
    def name(self) -> str:
        return self.words[0]


CASES = [
    Case(("train", "tiny.toml", "--out", "run", "--quiet"), "run", ("--resume",)),
    Case((*RESCORE, "--out", "best", "--quiet"), "best", ("--resume",)),
    Case(("tune", *FILES, "--ref", "ref.txt", "--lm", "kn", "--out", "second-pass", "--quiet"), "second-pass"),
    Case(("nbest", "convert", *FILES, "--to", "jsonl", "--out", "lists.jsonl.gz"), "lists.jsonl.gz"),
    Case(("reproduce", "tables", "--data", ".", "--out", "table", "--quiet"), "table", ()),
]  # fmt: skip


def sandbox(directory: Path) -> None:
    """All that the commands read."""
    import contextlib

    (directory / "tables").mkdir()
    (directory / "tables/tables.toml").write_text(TABLES)
    (directory / "tables/kn.toml").write_text(TINY_NGRAM.format(text="text.txt"))
    recipe = tiny_recipe(directory).read_text().replace(str(directory), ".")
    (directory / "tiny.toml").write_text(
        recipe.replace("epochs = 20", "epochs = 2\nsnapshots = 1").replace("batch = 6", "batch = 18")
    )
    for name, content in (("lists.txt", LISTS), ("lists2.txt", LISTS.replace("cat", "dog")), ("lists.ac", SCORES)):
        (directory / name).write_text(content)
    (directory / "ref.txt").write_text(REFERENCES)
    (directory / "text.txt").write_text(TINY_TEXT)
    with contextlib.chdir(directory):
        end, message, _ = child(("train", "tables/kn.toml", "--out", "kn", "--quiet"))
    if end:
        raise RuntimeError(message)


def child(
    words: tuple[str, ...], arm: Callable[[], None] = lambda: None, calls: Callable[[], bytes] = lambda: b""
) -> tuple[int, str, list[str]]:
    """(exit status, what was said, system calls counted) of a command by a fork of this process, which has imported all."""
    from trflm.cli import main

    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as counted:
        process = os.fork()
        if process == 0:
            status = 1
            try:
                signal.alarm(1200)  # what hangs ends; a loaded machine may take minutes
                for target in (1, 2):
                    os.dup2(said.fileno(), target)
                sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
                sys.argv = ["trf", *words]
                arm()
                main()
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else 1
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                made = calls()
                sys.stdout.flush()
                sys.stderr.flush()
                counted.write(made)
                counted.flush()
                os._exit(status)
        _, status = os.waitpid(process, 0)
        said.seek(0)
        counted.seek(0)
        return os.waitstatus_to_exitcode(status), said.read().decode(), counted.read().decode().splitlines()


def faults_of(calls: list[str], kinds: bool) -> Iterator[tuple[int, int]]:
    """(number of a call, its fault): all there are, or one for each kind of call, in turn of those that it may have."""
    if not kinds:
        yield from ((number, fault) for number, call in enumerate(calls, 1) for fault in faults_at(call))
        return
    numbers: dict[str, list[int]] = {}
    for number, call in enumerate(calls, 1):
        name, _, path = call.partition(" ")
        kind = re.sub(r"[0-9a-f]{16}|[0-9]+", "N", f"{'read' if name in READS else name} {path}")
        numbers.setdefault(kind, []).append(number)
    for at, found in enumerate(numbers.values()):
        number = found[at % len(found)]
        faults = faults_at(calls[number - 1])
        yield number, faults[at % len(faults)]


def faults_at(call: str) -> list[int]:
    name = call.partition(" ")[0]
    if name == "pipe":
        return [errno.EMFILE]
    return [errno.EIO] if name in READS else [KILL, errno.ENOSPC, errno.EIO]


def content(path: Path) -> Any:
    """All that a command made, without times and without the commit, which a fault may keep from being known. A kill may leave
    a hidden `.partial`, which nothing reads."""
    if path.is_dir():
        files = [file for file in sorted(path.iterdir()) if file.name != "train.log" and file.suffix != ".partial"]
        return {file.name: content(file) for file in files}
    if path.name in ("metrics.jsonl", "results.json", "config.json", "result.json", "rescorer.json"):
        return [bare(json.loads(line)) for line in documents(path.read_text())]
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return {name: arrays[name].tobytes() for name in arrays.files if name != "seconds"}
    return None if path.name in ("training.safetensors", "report.html", "results.md") else path.read_bytes()


def documents(text: str) -> list[str]:
    return text.splitlines() if text.startswith('{"') else [text]


def bare(value: Any) -> Any:
    if isinstance(value, dict):
        left_out = ("seconds", "made", "time", "started", "finished", "commit")
        return {key: bare(item) for key, item in value.items() if not any(word in key for word in left_out)}
    return [bare(item) for item in value] if isinstance(value, list) else value


def problems(directory: Path, case: Case, shim: ctypes.CDLL, kinds: bool) -> Iterator[str]:
    """What did not hold; last, how many faults there were. Every 50 faults stderr is told how far it is."""
    (whole := directory / "whole").mkdir()
    sandbox(whole)
    work = directory / "work"

    def fresh() -> None:
        os.chdir(directory)
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(whole, work)
        os.chdir(work)

    calls: list[str] = []
    for _ in range(2):  # the first fills caches, which later ones find full
        fresh()
        end, message, calls = child(case.words, lambda: shim.faults_arm(0, 0), shim.faults_calls)
        if end:
            raise RuntimeError(f"trf {' '.join(case.words)}: {message}")
    calls = [call.replace(f"{work}/", "") for call in calls]
    expected, tried = content(work / case.out), 0
    faults = list(faults_of(calls, kinds))
    for number, fault in faults:
        tried += 1
        if tried % 50 == 0:
            print(f"{case.name}: fault {tried} of {len(faults)}", file=sys.stderr, flush=True)
        name = f"{case.name}, call {number} of {len(calls)} ({calls[number - 1]}), {errno.errorcode.get(fault, 'SIGKILL')}"
        fresh()
        end, message, _ = child(case.words, lambda n=number, e=fault: shim.faults_arm(n, e))
        told = end in (0, 1, 2) and "Traceback" not in message and (end == 0) <= (len(message) < MOST_MESSAGE)
        if end != -signal.SIGKILL if fault == KILL else not told:
            yield f"{name}: exit {end}: {message[-1500:]}"
        if end == 0 or (case.again is None and (work / case.out).exists()):  # it was done, or was done before the fault
            end, message = 0, ""
        else:
            end, message, _ = child((*case.words, *(case.again or ())))
        if end:
            yield f"{name}, and given again: exit {end}: {message[-1500:]}"
        elif content(work / case.out) != expected:
            yield f"{name}: {case.out} is not what it is without the fault"
    yield f"{case.name}: {len(calls)} system calls, {tried} faults"


def compiled(directory: Path) -> Path:
    """The shim, made by the C compiler that numba's users and ours have anyway."""
    shim = directory / "faults.so"
    source = Path(__file__).with_name("faults.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(shim), str(source), "-ldl"], check=True)
    return shim


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("--commands", nargs="*", default=[case.name for case in CASES])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if "FAULTS_SHIM" not in os.environ:  # again, with the shim in front of the C library
            shim = str(compiled(Path(name)))
            words = [sys.executable, __file__, *sys.argv[1:]]
            sys.exit(subprocess.run(words, env={**os.environ, "LD_PRELOAD": shim, "FAULTS_SHIM": shim}, check=False).returncode)
        shim = ctypes.CDLL(os.environ.pop("FAULTS_SHIM"))
        shim.faults_calls.restype, shim.faults_arm.argtypes = ctypes.c_char_p, [ctypes.c_long, ctypes.c_int]
        os.environ.pop("LD_PRELOAD")
        import torch
        import torch._dynamo  # optimisers import it: seconds in every child

        import trflm.deploy.rescorer
        import trflm.experiment.run
        import trflm.experiment.train
        import trflm.reproduce.results
        import trflm.speed.distinct

        torch.set_num_threads(1)
        trflm.speed.distinct.distinct([torch.zeros(1, dtype=torch.int32)], 1)  # imports numba
        failures = 0
        for case in CASES:
            if case.name in arguments.commands:
                place = Path(name, case.name)
                place.mkdir()
                lines = 0
                for line in problems(place, case, shim, arguments.kinds):
                    print(line, flush=True)
                    lines += 1
                failures += lines - 1  # the last says how many faults there were
        sys.exit(failures > 0)


if __name__ == "__main__":
    main()
