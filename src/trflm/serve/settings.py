"""What an operator says of a service."""

import dataclasses
import ipaddress
import json
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path

from trflm.errors import InputError

LEAST_TOKEN = 16  # characters


@dataclass(frozen=True)
class Limits:
    """What one request may ask for."""

    body: int = 4 << 20  # bytes; of a stream, bytes of a line
    hypotheses: int = 5000  # of a list, or sentences to score
    words: int = 1000  # of a sentence
    seconds: float = 30.0  # in which a body must come, or the next bytes of a stream


@dataclass(frozen=True)
class Settings:
    """Of the whole service; `threads` and `queue` are those of each process."""

    rescorer: str
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    threads: int = 1  # lists that are scored at once
    queue: int = 64  # requests that wait beyond those
    grace: float = 25.0  # seconds that what has begun may take after SIGTERM
    token: str | None = None
    bf16: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        least = {"workers": 1, "threads": 1, "queue": 0, "grace": 0, "port": 0}
        for name, value in least.items():
            if getattr(self, name) < value:
                raise InputError(f"--{name} {getattr(self, name)}: must be at least {value}")
        if self.port > 65535:
            raise InputError(f"--port {self.port}: must be at most 65535")
        for name, limit in dataclasses.asdict(self.limits).items():
            if limit <= 0:
                raise InputError(f"the limit of {name} is {limit}; it must be positive")
        if self.token is None and not self.is_local:
            raise InputError(
                f"--host {self.host}: others can reach that address; give --token-file FILE with a secret that they must send"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:  # a name
            return False

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        record = json.loads(text)
        return cls(**{**record, "limits": Limits(**record["limits"])})

    def bind(self) -> socket.socket:
        """The socket at the address; it does not listen before somebody can answer. One that is taken is an InputError."""
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, kind, protocol, _, address = found[0]
            bound = socket.socket(family, kind, protocol)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except OSError as error:
            raise InputError(
                f"--host {self.host} --port {self.port}: {error.strerror or error}; give another --port, or 0 for any free one"
            ) from error
        bound.setblocking(False)
        return bound


def read_token(path: Path) -> str:
    """The first line of the file, without blanks around it."""
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as a token: {error}; write one line of letters and digits") from error
    if len(token) < LEAST_TOKEN or not token.isprintable() or " " in token:
        raise InputError(
            f"{path}: a token is a line of at least {LEAST_TOKEN} characters without blanks; try `openssl rand -hex 32`"
        )
    return token


def default_threads(workers: int) -> int:
    """The cores that this process may use, shared among the workers."""
    return max(len(os.sched_getaffinity(0)) // max(workers, 1), 1)


def url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
