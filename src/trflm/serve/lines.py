"""A stream of lists, one JSON object a line, answered as a stream, in order.

Lists are scored while others still come, as many at once as there are threads. What is wrong with a line is said on its line,
and the stream goes on. A client that first sends everything and then reads is served too, up to MOST_UNREAD bytes of answers;
then nothing more is read before it has taken some.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from trflm.serve.errors import BodyTooLargeError, RequestError, to_json
from trflm.serve.pool import Pool
from trflm.serve.settings import Limits

NDJSON = "application/x-ndjson"
MOST_UNREAD = 64 << 20
IDLE = 600.0  # seconds without a byte from the client, or without it taking one
LEAVING = 1.0  # the same, when the server is about to end


class LineStream(Response):
    """The answers to the lines of the request."""

    def __init__(self, pool: Pool, answer: Callable[..., bytes], limits: Limits) -> None:
        super().__init__(media_type=NDJSON)
        self.pool, self.answer, self.limits = pool, answer, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.pool.admitted():
            headers = [(b"content-type", NDJSON.encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            answers: asyncio.Queue[asyncio.Task[bytes] | None] = asyncio.Queue()
            unread = _Unread()
            reader = asyncio.create_task(self._read(receive, answers, unread))
            try:
                while (task := await answers.get()) is not None:
                    line = await task
                    await asyncio.wait_for(send({"type": "http.response.body", "body": line, "more_body": True}), IDLE)
                    unread.took(line)
                await reader
                await send({"type": "http.response.body", "body": b""})
            finally:
                reader.cancel()

    async def _read(self, receive: Receive, answers: asyncio.Queue[asyncio.Task[bytes] | None], unread: "_Unread") -> None:
        """Score the lines as they come; None at the end."""
        free = asyncio.Semaphore(self.pool.threads)

        async def score(line: bytes | None) -> bytes:
            try:
                if line is None:
                    raise BodyTooLargeError(
                        f"the line is longer than the {self.limits.body:,} bytes that are allowed; divide it"
                    )
                body = await self.pool.run(partial(self.answer, body=line))
            except RequestError as error:
                body = to_json({"id": _id(line), "error": str(error)})
            finally:
                free.release()
            unread.add(body)
            return body + b"\n"

        try:
            async for line in self._lines(receive):
                await free.acquire()
                await unread.room()
                answers.put_nowait(asyncio.create_task(score(line)))
        except RequestError as error:
            answers.put_nowait(asyncio.create_task(_said(error)))
        finally:
            answers.put_nowait(None)

    async def _lines(self, receive: Receive) -> AsyncIterator[bytes | None]:
        """Those that are not blank; None in the place of one that is too long, which is not kept."""
        rest, skipping = b"", False
        async for block in self._blocks(receive):
            *whole, rest = (rest + block).split(b"\n")
            for line in whole:
                if skipping or len(line) > self.limits.body:
                    yield None
                elif line.strip():
                    yield line
                skipping = False
            if len(rest) > self.limits.body:
                rest, skipping = b"", True
        if skipping:
            yield None
        elif rest.strip():
            yield rest

    async def _blocks(self, receive: Receive) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self._next(receive)
            if message["type"] == "http.disconnect":
                return
            yield message.get("body", b"")
            more = message.get("more_body", False)

    async def _next(self, receive: Receive) -> Any:
        """The next message; an error if nothing comes, sooner when the server is about to end."""
        coming, leaving = asyncio.ensure_future(receive()), asyncio.create_task(self.pool.leaving.wait())
        try:
            done, _ = await asyncio.wait({coming, leaving}, timeout=IDLE, return_when=asyncio.FIRST_COMPLETED)
            if coming not in done and leaving in done:
                done, _ = await asyncio.wait({coming}, timeout=LEAVING)
            if coming in done:
                return coming.result()
            why = "the server ends" if self.pool.leaving.is_set() else f"nothing came for {IDLE:.0f} seconds"
            raise RequestError(f"{why}; send the lists that have no answer again")
        finally:
            coming.cancel()
            leaving.cancel()


class _Unread:
    """Bytes of answers that the client has not taken."""

    def __init__(self) -> None:
        self.bytes, self.fewer = 0, asyncio.Event()

    def add(self, body: bytes) -> None:
        self.bytes += len(body)

    def took(self, line: bytes) -> None:
        self.bytes -= len(line) - 1
        self.fewer.set()

    async def room(self) -> None:
        while self.bytes > MOST_UNREAD:
            self.fewer.clear()
            await self.fewer.wait()


async def _said(error: RequestError) -> bytes:
    return to_json({"id": None, "error": str(error)}) + b"\n"


def _id(line: bytes | None) -> str | None:
    """The id of a line that was refused, if it has one."""
    try:
        found = json.loads(line or b"").get("id")
    except (ValueError, AttributeError, RecursionError):
        return None
    return found if isinstance(found, str) and found.isprintable() else None
