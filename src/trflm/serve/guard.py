"""Around every request: who may ask, what the answer's headers forbid a browser, and what is counted.

Without a token only this machine can reach the service, but so can a page that a browser of this machine has open: under a name
of its own that leads here (DNS rebinding). So the `Host` of a request must then be a name of this machine.
"""

import hmac
import sys
import time
import traceback
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trflm.serve import metrics
from trflm.serve.errors import ForbiddenError, RequestError, UnauthorizedError, to_json
from trflm.serve.settings import Settings

OPEN = ("/v2/health/", "/static/")  # without a token: probes, and the page, which asks for it
LOCAL = {b"localhost", b"127.0.0.1", b"[::1]"}
HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]


class Guard:
    def __init__(self, app: ASGIApp, settings: Settings, endpoints: Collection[str]) -> None:
        self.app, self.endpoints = app, frozenset(endpoints)
        self.token = None if settings.token is None else f"Bearer {settings.token}".encode()
        self.hosts = {*LOCAL, settings.host.encode(), f"[{settings.host}]".encode()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path, begun, status = scope["path"], time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS]
                if path.startswith("/v"):
                    message["headers"].append((b"cache-control", b"no-store"))
            await send(message)

        try:
            self._check(scope)
            await self.app(scope, receive, answer)
        except RequestError as error:
            await send_error(answer, error.status, str(error), error.headers())
        except Exception:  # a fault of ours: told to the operator, not to the client
            print(f"trf: {scope['method']} {path[:200]!r} failed\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            if not status:
                await send_error(answer, 500, "the server failed; its log says why", {})
        finally:
            endpoint = path if path in self.endpoints else "/static" if path.startswith("/static/") else "other"
            metrics.requests.labels(endpoint, str(status or 499)).inc()
            metrics.seconds.labels(endpoint).observe(time.perf_counter() - begun)

    def _check(self, scope: Scope) -> None:
        path, headers = scope["path"], dict(scope["headers"])
        if self.token is None:
            host = headers.get(b"host", b"localhost")
            name = host if host.endswith(b"]") else host.rpartition(b":")[0] or host
            if name.lower() not in self.hosts:
                raise ForbiddenError(
                    "this service is only for its own machine; to offer it under another name, start it with --token-file"
                )
            return
        is_open = path == "/" or path.startswith(OPEN)
        if not is_open and not hmac.compare_digest(headers.get(b"authorization", b""), self.token):
            raise UnauthorizedError("send the token of this service as `Authorization: Bearer TOKEN`")


async def send_error(send: Send, status: int, message: str, headers: dict[str, str]) -> None:
    body = to_json({"error": message})
    sent = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    raw = [(name.encode(), value.encode()) for name, value in sent.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
