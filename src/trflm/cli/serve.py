"""`trf serve`: the second pass as a service."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import tyro

from trflm.cli.options import BF16
from trflm.errors import InputError
from trflm.ranges import Amount, Bytes, Count, NotNegative, Port, ThreadCount


def serve(
    rescorer: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RESCORER")],
    *,
    host: str = "127.0.0.1",
    port: Port = 8000,
    workers: Annotated[ThreadCount, tyro.conf.arg(metavar="N")] = 1,
    token_file: Path | None = None,
    threads: Annotated[ThreadCount, tyro.conf.arg(metavar="N")] = 0,
    queue: Amount = 64,
    most_bytes: Bytes = 4 << 20,
    most_hypotheses: Count = 5000,
    most_words: Count = 1000,
    grace: NotNegative = 25.0,
    bf16: BF16 = False,
) -> None:
    """Serve the second pass over HTTP: POST /v1/rescore and others, a page at /, /metrics, /openapi.json.

    SIGHUP loads the directory anew without a lost request; SIGTERM finishes what has begun. See docs/serving.md.

    Args:
        rescorer: What `trf tune --out DIR` wrote.
        host: The address to listen at. Any other than this machine's own needs --token-file.
        port: 0 takes a free one, and says which.
        workers: Processes, each with the models in its memory. One that dies is started anew.
        token_file: A secret of one line, that every request must send as `Authorization: Bearer SECRET`.
        threads: Lists that each process scores at once; 0 shares the cores among the processes.
        queue: Requests that may wait in each process; the next is answered by 503.
        most_bytes: Of a request, or of a line of a stream.
        most_hypotheses: Of a list.
        most_words: Of a sentence.
        grace: Seconds that what has begun may take after SIGTERM.
    """
    for package in ("fastapi", "uvicorn", "prometheus_client"):
        if find_spec(package) is None:
            raise InputError(f"trf serve needs {package}, which is not installed: pip install 'trflm[serve]'")
    from trflm.serve.settings import Limits, Settings, default_threads, read_token

    settings = Settings(
        rescorer=str(rescorer),
        host=host,
        port=port,
        workers=workers,
        threads=threads or default_threads(workers),
        queue=queue,
        grace=grace,
        token=None if token_file is None else read_token(token_file),
        bf16=bf16,
        limits=Limits(most_bytes, most_hypotheses, most_words),
    )
    from trflm.serve.run import run

    run(settings)
