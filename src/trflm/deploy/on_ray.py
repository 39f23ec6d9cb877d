"""`trf rescore --ray`: one reader, workers that hold the model, and results in order.

    lists -> rows (number, where, text, said) -> map_batches(JournalRescorer) -> lines of the journal

The reader leaves lines of JSON to the workers, who read them as it would: it shares the cores with them. A batch takes Ray some
tens of milliseconds of processor time, most of it in the process that asked, whatever is in it: so batches are large.

Ray replaces a worker that dies and does its batch again. A batch gives the same lines wherever it is done; they come in order,
and each is checked to be the next one: no list is lost, none is there twice, and the bytes are those of one process
(for the models of which docs/rescoring.md says so).
"""

import logging
import os
import secrets
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, cast

from trflm.deploy.stream import Shard
from trflm.errors import InputError
from trflm.evaluation.formats.jsonl import JSONL, lines_of_jsonl, to_json
from trflm.evaluation.second_pass.files import ListFiles
from trflm.evaluation.transcripts import read_transcripts

BATCH = 1 << 20  # bytes of lists that a worker is given at once, and that are done again if it dies; one list at least
CONNECT_SECONDS = 10
SETTINGS = b"\4"  # the kind of frame with which either side of HTTP/2 begins, on which Ray's protocol stands
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + SETTINGS + b"\0\0\0\0\0"
STORE = 256 << 20  # bytes of the object store of a Ray of our own: a few thousand lists


@dataclass(frozen=True)
class Job:
    """What is rescored, by what; sent to the workers."""

    files: ListFiles
    rescorer: Path
    sha256: str | None
    scores: bool = False
    shard: Shard = field(default_factory=Shard)
    threads: int = 1

    def rows(self, start: int) -> Iterator[dict[str, Any]]:
        """The lists from number `start` on, as rows."""
        references = None if self.files.ref is None else read_transcripts(self.files.ref)
        lists = islice(self.shard.take(self.lists()), start, None)
        for number, (utterance, where, text) in enumerate(lists, start):
            said = None if references is None else references.get(utterance)
            yield {"number": number, "where": where, "text": text, "said": said}

    def lists(self) -> Iterator[tuple[str, str, str]]:
        """(utterance, where it is from, a line of JSON) of each list."""
        files = self.files
        if files.format_name == JSONL.name and not (files.fields or files.costs or files.scores):
            return lines_of_jsonl(files.nbest)
        return ((nbest.utterance, f'utterance "{nbest.utterance}"', to_json(nbest)) for nbest in files.read())


def give_token() -> None:
    """Ray makes a token for a cluster and keeps it in ~/.ray; where nothing can be written there, ours has one all the same."""
    directory = Path.home() / ".ray"
    with suppress(OSError):
        directory.mkdir(exist_ok=True)
    if not os.access(directory, os.W_OK):
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


@contextmanager
def connected(address: str | None, workers: int, threads: int) -> Iterator[int]:
    """A Ray to work on, and how many workers it gets: the cluster at `address` (`auto`: one that runs here), by default the one
    that RAY_ADDRESS names, else one of our own on this machine, which ends with us.

    `workers` 0 takes as many as there are CPUs. What Ray prints goes to stderr.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise InputError(f"--ray: Ray is not installed ({error}); pip install 'trflm[ray]'") from error
    if ray.is_initialized():  # a Ray that the caller works with already, and goes on with
        with redirect_stdout(sys.stderr):
            yield workers or max(1, int(ray.cluster_resources()["CPU"]) // threads)
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if address == "local":
        workers = workers or max(1, (os.cpu_count() or 1) // threads)
        give_token()
        own = {"num_cpus": workers * threads, "include_dashboard": False, "object_store_memory": STORE}
    else:
        own = {}
        check_reachable(address)
    with redirect_stdout(sys.stderr):
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **own)
        except Exception as error:  # Ray raises what it likes, also bare ones
            problem = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise unreachable(address, problem) from error
        try:
            most = int(ray.cluster_resources().get("CPU", 0)) // threads
            if most < max(workers, 1):
                raise InputError(f"--ray {address}: {most} workers of {threads} CPUs fit; give fewer --workers or --threads")
            yield workers or most
        finally:
            ray.shutdown()


def check_reachable(address: str) -> None:
    """Whether who listens at HOST:PORT or ray://HOST:PORT speaks Ray's protocol: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        return
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS) as peer:
            if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
                return
            peer.settimeout(CONNECT_SECONDS)
            peer.sendall(GREETING)
            answer = peer.recv(4)
    except TimeoutError as error:
        raise unreachable(address, f"no answer in {CONNECT_SECONDS} seconds") from error
    except (OSError, OverflowError) as error:
        raise unreachable(address, getattr(error, "strerror", None) or str(error)) from error
    if answer[3:] != SETTINGS:
        raise unreachable(address, "another service answers there; Ray's own port is 6379 or, for ray://, 10001")


def unreachable(address: str, problem: str) -> InputError:
    return InputError(f"--ray {address}: there is no Ray to be reached: {problem}; `ray status` tells")


def lines(job: Job, start: int, workers: int, worker: type | None = None) -> Iterator[str]:
    """The lines of the journal from list number `start` on, in order."""
    import pyarrow
    import ray.data
    from ray.data import ActorPoolStrategy, DataContext
    from ray.exceptions import RayError

    from trflm.deploy.tables import JournalRescorer

    context = DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = context.print_on_execution_start = False
    context.target_max_block_size, context.target_min_block_size = BATCH, 1
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", "The minimum number of concurrent actors")  # a short job has work for one
    found = ray.data.read_datasource(_source(job, start), override_num_blocks=1, num_cpus=0).map_batches(
        worker or JournalRescorer,
        batch_size=None,
        batch_format="pyarrow",
        compute=ActorPoolStrategy(size=workers),
        num_cpus=job.threads,
        fn_constructor_args=[str(job.rescorer.resolve())],
        fn_constructor_kwargs={
            "threads": job.threads,
            "sha256": job.sha256,
            "referenced": job.files.ref is not None,
            "scores": job.scores,
        },
    )
    expected = start
    try:
        for table in found.iter_batches(batch_size=None, batch_format="pyarrow"):
            for row in cast(pyarrow.Table, table).to_pylist():
                if row["number"] != expected:
                    raise RuntimeError(f"Ray gave list {row['number']} where {expected} comes next; go on with --resume")
                expected += 1
                yield row["line"]
    except RayError as error:
        raise _cause(error) from error


def _source(job: Job, start: int) -> Any:
    """One task that reads the lists, bit by bit; on the driver itself where nobody else sees them."""
    import pyarrow
    from ray.data.block import BlockMetadata
    from ray.data.datasource import Datasource, ReadTask

    schema = pyarrow.schema({name: pyarrow.string() for name in ("where", "text", "said")} | {"number": pyarrow.int64()})

    def read() -> Iterator[pyarrow.Table]:
        some, size = [], 0
        for row in job.rows(start):
            some.append(row)
            size += len(row["text"])
            if size >= BATCH:
                yield pyarrow.Table.from_pylist(some, schema)
                some, size = [], 0
        yield pyarrow.Table.from_pylist(some, schema)

    class Lists(Datasource):
        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None) -> list:
            about = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
            return [ReadTask(read if here is None else lambda: here or [], about, schema)]

    paths = [job.files.nbest, *job.files.scores.values(), job.files.ref]
    here = list(read()) if any(str(path).startswith("memory://") for path in paths) else None
    return Lists()


def _cause(error: BaseException) -> BaseException:
    """The user's own error, if that is what went wrong in a worker."""
    at: BaseException | None = error
    while at is not None:
        inner = getattr(at, "cause", None)
        at = inner if isinstance(inner, BaseException) else at.__cause__
        if isinstance(at, InputError):
            return InputError(str(at))
    return RuntimeError(f"Ray gave up: {error}; go on with --resume")
