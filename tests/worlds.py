"""Several processes that train together, as torchrun starts them: forks of this one, which saves importing torch in each."""

import os
import pickle
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class Ended(Exception):
    """How processes ended that did not all return."""


def in_world(size: int, work: Callable[[int], T], directory: Path) -> list[T]:
    """What `work(rank)` returns in each of `size` processes that have torchrun's variables; their stderr is in DIR/stderr-RANK.
    Raises `Ended` with the exit status of each if one does not return."""
    children = []
    for rank, port in enumerate([free_port()] * size):
        child = os.fork()
        if child == 0:
            os._exit(_child(rank, size, port, work, directory))
        children.append(child)
    status = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if any(status):
        raise Ended(status, [error_of(directory, rank) for rank in range(size)])
    return [pickle.loads((directory / f"result-{rank}").read_bytes()) for rank in range(size)]


def _child(rank: int, size: int, port: int, work: Callable[[int], Any], directory: Path) -> int:
    signal.alarm(300)
    for target, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(directory / f"{name}-{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), target)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
    own = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in own.items()}, MASTER_ADDR="127.0.0.1")
    status = 1
    try:
        (directory / f"result-{rank}").write_bytes(pickle.dumps(work(rank)))
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def error_of(directory: Path, rank: int) -> str:
    return (directory / f"stderr-{rank}").read_text()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
