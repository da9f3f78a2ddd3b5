"""The engine's edge: what comes in through one bounded mailbox, what goes out once a step.

    server thread ---- offer(Submit) / post(Cancel | Finish | Call) ----> Mailbox ----> engine thread
    engine thread ---- Sink.step(outputs) once a step --------------------------------> server loop

A full mailbox refuses submits (429); cancel, finish and calls always fit, since each belongs to something admitted.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from faults.points import Severity
from faults.spec import DEFAULT_GROUP
from runtime.core.errors import RuntimeFailure
from runtime.core.work import Sampled, Sampling


@dataclass(frozen=True, slots=True)
class Submit:
    """A request at the door. Times are the engine clock's."""

    request_id: str
    """Unique in this process; the server makes it."""
    prompt: tuple[int, ...]
    """Token ids; at least one."""
    max_tokens: int
    sampling: Sampling
    arrive_ns: int
    deadline_ns: int
    stop_tokens: frozenset[int] = frozenset()
    group: str = DEFAULT_GROUP
    model_key: str = ""
    priority: int = 0
    """Higher goes first; see runtime/scheduling/rank.py."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """The client is gone; a late one, after the request ended, is a no-op."""

    request_id: str
    why: str = "client gone"


@dataclass(frozen=True, slots=True)
class Finish:
    """The server saw a stop string: end the request well, with no more tokens."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Call:
    """Run `do` on the engine thread between two steps (audit, drain); it hands its answer back by itself."""

    do: Callable[[], None]


Mail = Submit | Cancel | Finish | Call


@dataclass(frozen=True, slots=True)
class End:
    """The one terminal outcome of a request."""

    outcome: str
    """ok | refused | timeout | cancelled | http_error | fatal"""
    http: int
    code: str | None = None
    message: str | None = None
    finish: str | None = None
    """stop | length, of an ok one."""


def end_of(failure: RuntimeFailure) -> End:
    """The terminal outcome that a typed failure means for its request."""
    if failure.severity is Severity.FATAL:
        outcome = "fatal"
    else:
        outcome = {429: "refused", 503: "refused", 504: "timeout"}.get(failure.http, "http_error")
    return End(outcome, failure.http, failure.code, str(failure))


@dataclass(slots=True)
class Ended:
    """What the engine knows of a request when it ends; the server adds how the answer was delivered."""

    end: End
    arrive_ns: int
    admit_ns: int | None
    first_ns: int | None
    end_ns: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    preempted: int


@dataclass(slots=True)
class Output:
    """News of one request in one step: new tokens, or its end, or both."""

    request_id: str
    tokens: tuple[Sampled, ...]
    ended: Ended | None = None


class Sink(Protocol):
    """Takes a step's outputs, on the engine's thread, and returns at once."""

    def step(self, outputs: list[Output]) -> None:
        """All news of this step, in batch order."""
        ...


class Mailbox:
    """One inbox for everything that may wake the engine. Submits are bounded; the rest always fits.

    `on_mail` is called for each mail and wake-up, by who brings it: an engine that waits on no condition learns so.
    """

    def __init__(self, submits_max: int, on_mail: Callable[[], None] = lambda: None) -> None:
        self._submits_max = submits_max
        self._on_mail = on_mail
        self._mail: deque[Mail] = deque()
        self._submits = 0
        self._stirred = False
        self._condition = threading.Condition()

    def offer(self, submit: Submit) -> bool:
        """Queue a submit; False when the bound is reached."""
        with self._condition:
            if self._submits >= self._submits_max:
                return False
            self._submits += 1
            self._mail.append(submit)
            self._stir()
            return True

    def post(self, mail: Cancel | Finish | Call) -> None:
        """Queue what always fits."""
        with self._condition:
            self._mail.append(mail)
            self._stir()

    def wake(self) -> None:
        """Something outside the mailbox happened (a completion)."""
        with self._condition:
            self._stir()

    def take(self) -> list[Mail]:
        """All mail, oldest first."""
        if not self._stirred and not self._mail:  # as in most turns of a virtual run; who comes now stirs again
            return []
        with self._condition:
            mail = list(self._mail)
            self._mail.clear()
            self._submits = 0
            self._stirred = False
            return mail

    def wait(self, timeout_s: float | None) -> None:
        """Until there is mail or a wake-up, or `timeout_s` has passed."""
        with self._condition:
            self._condition.wait_for(lambda: self._stirred, timeout_s)

    def _stir(self) -> None:
        self._stirred = True
        self._condition.notify()
        self._on_mail()
