"""HTTP helpers of the endpoints: error responses, handlers for the framework's errors, and bodies with a size limit."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from runtime.server.admission import Rejected
from runtime.server.errors import Problem, problem

_CODES = {404: "not_found", 405: "method_not_allowed"}


def error_response(found: Problem, headers: dict[str, str] | None = None) -> JSONResponse:
    """The response of a problem, with Retry-After where the client may try again."""
    headers = dict(headers or {})
    if found.retry_after_s is not None:
        headers["Retry-After"] = str(found.retry_after_s)
    return JSONResponse(found.body, found.http, headers)


async def read_body(request: Request, bytes_max: int) -> bytes:
    """The whole body. Raises Rejected with 413 when it is longer than `bytes_max`."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > bytes_max:
            raise Rejected(problem(413, f"the body is longer than {bytes_max} bytes; send less", "body_too_large"))
    return bytes(body)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, "http_error")
    return error_response(problem(error.status_code, str(error.detail), code), dict(error.headers or {}))


async def _rejected(_: Request, error: Exception) -> Response:
    assert isinstance(error, Rejected)
    return error_response(error.problem)


Handlers = dict[Any, Callable[[Request, Exception], Awaitable[Response]]]


def handlers(tell_exception: Callable[[Exception], object]) -> Handlers:
    """The handlers of all errors that an endpoint raises. `tell_exception` gets those that no code expects."""

    async def internal_error(_: Request, error: Exception) -> Response:
        tell_exception(error)
        text = f"the server failed: {type(error).__name__}"
        return error_response(Problem(500, text, "internal_error"))

    return {HTTPException: _http_error, Rejected: _rejected, Exception: internal_error}
