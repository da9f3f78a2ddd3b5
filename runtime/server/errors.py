"""Errors in the form that clients get: `{"error": {message, type, param, code}}`, as in OpenAI and vLLM."""

from dataclasses import dataclass, replace

from faults.points import Severity
from runtime.core.errors import RuntimeFailure
from runtime.core.messages import End

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    503: "service_unavailable_error",
    504: "timeout_error",
}
RETRY_AFTER_S = {429: 1, 503: 2}
OUTCOMES = {429: "refused", 504: "timeout", 499: "cancelled"}


@dataclass(frozen=True, slots=True)
class Problem:
    """One error, ready for a response, for a stream and for the journal."""

    http: int
    message: str
    code: str
    param: str | None = None
    retry_after_s: int | None = None
    outcome: str = "http_error"

    @property
    def body(self) -> dict[str, dict[str, str | None]]:
        """The JSON object of a response."""
        kind = TYPES.get(self.http, "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def problem(http: int, message: str, code: str, param: str | None = None) -> Problem:
    """The problem of an error that the server found."""
    return Problem(http, message, code, param, RETRY_AFTER_S.get(http), OUTCOMES.get(http, "http_error"))


def problem_of_failure(failure: RuntimeFailure) -> Problem:
    """The problem of an error that the runtime raised."""
    found = problem(failure.http, str(failure), failure.code, getattr(failure, "param", None))
    outcome = "fatal" if failure.severity is Severity.FATAL else found.outcome
    return replace(found, retry_after_s=getattr(failure, "retry_after_s", found.retry_after_s), outcome=outcome)


def problem_of_end(end: End) -> Problem:
    """The problem of a request that did not end with "ok"."""
    message = end.message or f"the request ended as {end.outcome}"
    return Problem(end.http, message, end.code or end.outcome, None, RETRY_AFTER_S.get(end.http), end.outcome)
