"""Facts of a request: its caller, its parameters, the delivery of its answer, and its row in the journal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runtime.core.messages import Ended


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request, from its headers."""

    request: str
    """The client's X-Request-Id, or the server's id when it sent none."""
    server_id: str
    """The engine's name for the request."""
    group: str
    load: str | None
    """The load that this request belongs to, for the scopes of faults; None outside of trials."""
    arrive_ns: int
    timeout_s: float


@dataclass(frozen=True, slots=True)
class GenerationParams:
    """The checked parameters of a request, in one form for every endpoint."""

    prompt: Sequence[int]
    """Token ids."""
    param: str
    """The field that the prompt came from."""
    max_tokens: int | None
    """None means as many as the context has room for."""
    temperature: float
    top_p: float
    seed: int | None
    logprobs: int | None
    stops: tuple[str, ...]
    stop_tokens: frozenset[int]
    stream: bool
    include_usage: bool
    token_ids: bool
    """True when the answer shows the ids of its tokens."""
    priority: int = 0
    """Requests with a higher number go first. (The API has it the other way round.)"""
    role_first: bool = False
    """True when a stream has a chunk with the role before its first token."""


class ServedRow(NamedTuple):
    """One request in the server's journal; the fields are the columns of table `served`, in order."""

    request: str
    server_id: str
    proc: str
    arrive_ns: int
    admit_ns: int | None
    first_ns: int | None
    end_ns: int
    outcome: str
    finish: str | None
    code: str | None
    tokens_in: int | None
    tokens_out: int | None
    tokens_cached: int | None
    preempted: int | None
    fallback: str | None


class Delivery(NamedTuple):
    """The delivery of an answer: outcome, error code, finish reason."""

    outcome: str
    code: str | None = None
    finish: str | None = None


def served_row(caller: Caller, proc: str, end_ns: int, delivery: Delivery, ended: Ended | None) -> ServedRow:
    """The row of a request; `ended` is None for a request that never reached the engine."""
    outcome, code, finish = delivery
    names = (caller.request, caller.server_id, proc, caller.arrive_ns)
    if ended is None:
        return ServedRow(*names, None, None, end_ns, outcome, finish, code, None, None, None, None, None)
    stamps, counts = (ended.admit_ns, ended.first_ns), (ended.tokens_in, ended.tokens_out, ended.tokens_cached)
    return ServedRow(*names, *stamps, end_ns, outcome, finish, code, *counts, ended.preempted, None)
