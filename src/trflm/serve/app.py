"""The endpoints. The event loop only moves bytes: reading, scoring and writing an answer is one call in a thread."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

import trflm
from trflm.deploy.rescorer import Rescorer
from trflm.look.page import STYLE_SHEET
from trflm.serve import answers, messages, metrics
from trflm.serve.errors import BodyTooLargeError, MediaTypeError, RequestError, TooSlowError, to_json
from trflm.serve.examples import examples
from trflm.serve.guard import Guard
from trflm.serve.lines import NDJSON, LineStream
from trflm.serve.messages import ExplainRequest, ParseRequest, RescoreRequest, ScoreRequest
from trflm.serve.parsing import parse
from trflm.serve.pool import Pool
from trflm.serve.settings import Limits, Settings

JSON = "application/json"
STATIC = Path(__file__).parent / "static"
MOST_DROPPED = 64 << 20  # bytes beyond the limit that are read and dropped, so that the client reads why
ABOUT = """The second pass of a speech recogniser: n-best lists in, the best hypothesis out, with all that decided.
Scores are natural logs, higher is better. What is wrong with a request is said as {"error": "..."}."""
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"description": "not JSON in UTF-8"},
    401: {"description": "the token is missing or wrong"},
    403: {"description": "asked for under a name that is not this machine's"},
    408: {"description": "the body did not come in time"},
    413: {"description": "larger than the limits of GET /v1/rescorer"},
    415: {"description": "not the media type of this endpoint"},
    422: {"description": "JSON, but not what is asked for here"},
    503: {"description": "too many requests at once; Retry-After says when to try again"},
}

NOT_ALLOWED = 401, 403

Call = Callable[[Rescorer, bytes], bytes]


def application(settings: Settings, pool: Pool) -> ASGIApp:
    """The whole service; the pool is in use from now on."""
    app = FastAPI(title="trflm", version=trflm.__version__, description=ABOUT, docs_url=None, redoc_url=None)
    limits = settings.limits

    def rescore_bytes(rescorer: Rescorer, body: bytes) -> bytes:
        found = answers.rescore(rescorer, messages.read(RescoreRequest, body), limits)
        metrics.count_list(found)
        return to_json(found)

    async def answered(request: Request, call: Call) -> Response:
        """The answer to a JSON body."""
        _expect(request, JSON)
        with pool.admitted():
            body = await _body(request, limits)
            return Response(await pool.run(lambda rescorer: call(rescorer, body)), media_type=JSON)

    rescore_body = _takes(RescoreRequest)
    rescore_body["requestBody"]["content"][NDJSON] = {
        "schema": {"type": "string", "description": "One such object a line; the answers come one a line, in order."},
        "example": messages.LINES,
    }

    @app.post("/v1/rescore", responses=_gives(messages.RescoreAnswer), openapi_extra=rescore_body)
    async def rescore(request: Request) -> Response:
        """Rescore one list, or a stream of lists (application/x-ndjson) that is answered line by line."""
        if _media_type(request) == NDJSON:
            return LineStream(pool, rescore_bytes, limits)
        return await answered(request, rescore_bytes)

    @app.post("/v1/score", responses=_gives(messages.ScoreAnswer), openapi_extra=_takes(ScoreRequest))
    async def score(request: Request) -> Response:
        """What each language model says of each sentence."""
        return await answered(request, lambda r, b: to_json(answers.score(r, messages.read(ScoreRequest, b), limits)))

    @app.post("/v1/explain", responses=_gives(messages.ExplainAnswer), openapi_extra=_takes(ExplainRequest))
    async def explain(request: Request) -> Response:
        """What each word adds to the score of its sentence, by model."""
        return await answered(request, lambda r, b: to_json(answers.explain(r, messages.read(ExplainRequest, b), limits)))

    @app.post("/v1/parse", responses=_gives(messages.ParseAnswer), openapi_extra=_takes(ParseRequest))
    async def parse_lists(request: Request) -> Response:
        """The lists in the content of an n-best file, ready to be rescored."""
        return await answered(request, lambda r, b: to_json(parse(messages.read(ParseRequest, b))))

    @app.get("/v1/rescorer", responses=_gives(messages.RescorerAnswer, *NOT_ALLOWED))
    async def about() -> Response:
        """What is loaded, its weights, and the limits of a request."""
        return Response(to_json(answers.about(pool.rescorer, settings)), media_type=JSON)

    @app.get("/v1/examples", responses=_gives(messages.ExamplesAnswer, *NOT_ALLOWED))
    async def some_examples() -> Response:
        """Lists to try."""
        return Response(to_json(examples(pool.rescorer)), media_type=JSON)

    @app.get("/v2/health/live", responses=_gives_probe("live"), openapi_extra={"security": []})
    async def live() -> Response:
        """The process answers (Open Inference Protocol)."""
        return Response(to_json({"live": True}), media_type=JSON)

    @app.get("/v2/health/ready", responses=_gives_probe("ready"), openapi_extra={"security": []})
    async def ready() -> Response:
        """The rescorer is loaded (Open Inference Protocol). Before that nothing listens."""
        return Response(to_json({"ready": True}), media_type=JSON)

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **_refuses(*NOT_ALLOWED)})
    async def show_metrics() -> Response:
        """Counts and times of all processes, for Prometheus."""
        return Response(metrics.page(), headers={"content-type": metrics.CONTENT_TYPE})

    _add_page(app)
    app.add_exception_handler(RequestError, _refuse)
    app.add_exception_handler(HTTPException, _refuse_http)
    document = app.openapi()  # made once, now
    if settings.token is not None:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return Guard(app, settings, [route.path for route in app.routes if hasattr(route, "path")])  # pyright: ignore


def _add_page(app: FastAPI) -> None:
    """The files of the page by their names: a name that is not among them leads nowhere."""
    files = {STYLE_SHEET.name: STYLE_SHEET, **{path.name: path for path in sorted(STATIC.iterdir())}}

    def show(name: str) -> Response:
        if name not in files:
            raise HTTPException(404, "there is no such file of the page")
        return FileResponse(files[name], headers={"cache-control": "no-cache"})

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return show("index.html")

    @app.get("/static/{name:path}", include_in_schema=False)
    async def static(name: str) -> Response:
        return show(name)


def _takes(kind: type[BaseModel]) -> dict[str, Any]:
    """The body of a request, for OpenAPI."""
    return {"requestBody": {"required": True, "content": {JSON: {"schema": kind.model_json_schema()}}}}


def _gives(kind: type[BaseModel], *refusals: int) -> dict[int | str, dict[str, Any]]:
    """The answers, for OpenAPI: that of this class, and refusals."""
    return {200: {"model": kind}} | _refuses(*(refusals or REFUSALS))


def _gives_probe(name: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"content": {JSON: {"example": {name: True}}}}} | _refuses(403)


def _refuses(*statuses: int | str) -> dict[int | str, dict[str, Any]]:
    return {status: {**REFUSALS[status], "model": messages.ErrorAnswer} for status in statuses}


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _expect(request: Request, kind: str) -> None:
    if (found := _media_type(request)) != kind:
        known = f"{kind} or {NDJSON}" if request.url.path == "/v1/rescore" else kind
        raise MediaTypeError(f"the content type is {found[:100] or 'missing'}; send {known}")


async def _body(request: Request, limits: Limits) -> bytes:
    """All of it, within the limits of size and time."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.seconds):
            async for part in request.stream():
                size += len(part)
                if size <= limits.body:
                    parts.append(part)
                elif size > limits.body + MOST_DROPPED:
                    break
    except TimeoutError:
        if size <= limits.body:
            raise TooSlowError(f"the request did not come within {limits.seconds:.0f} seconds; send it faster") from None
    if size > limits.body:
        raise BodyTooLargeError(f"the request is longer than the {limits.body:,} bytes that are allowed; divide it")
    return b"".join(parts)


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return Response(to_json({"error": str(error)}), error.status, error.headers(), JSON)


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = {404: "there is nothing here; GET /openapi.json tells what there is", 405: "this is asked for by another method"}
    message = said.get(error.status_code, error.detail)
    return Response(to_json({"error": message}), error.status_code, error.headers, JSON)
