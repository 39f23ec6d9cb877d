"""The faults of a request. Each is answered by its status and one sentence as JSON; none is a traceback."""

import json


class RequestError(Exception):
    """What is wrong with a request, and the remedy."""

    status = 422  # well-formed, but it cannot be done

    def headers(self) -> dict[str, str]:
        return {}


class NotJsonError(RequestError):
    status = 400


class UnauthorizedError(RequestError):
    status = 401

    def headers(self) -> dict[str, str]:
        return {"www-authenticate": "Bearer"}


class ForbiddenError(RequestError):
    status = 403


class TooSlowError(RequestError):
    status = 408

    def headers(self) -> dict[str, str]:
        return {"connection": "close"}


class TooLargeError(RequestError):
    """More than a limit allows."""

    status = 413


class BodyTooLargeError(TooLargeError):
    """The rest of the body is not read."""

    def headers(self) -> dict[str, str]:
        return {"connection": "close"}


class MediaTypeError(RequestError):
    status = 415


class BusyError(RequestError):
    status = 503

    def headers(self) -> dict[str, str]:
        return {"retry-after": "1"}


def to_json(value: object) -> bytes:
    """Strict JSON in UTF-8: a number that is not finite would be a fault of ours, and raises."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
