"""Messages between server and engine: mail arrives in one bounded mailbox, outputs leave once a step.

    server thread ---- offer(Submit) / post(Cancel | Finish | Call) ----> Mailbox ----> engine thread
    engine thread ---- Sink.step(outputs) once a step --------------------------------> server loop

A full mailbox refuses submits (429). It never refuses a cancel or a finish, whose requests are admitted, or a call.
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
    """A new request. Times are nanoseconds of the engine's clock."""

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
    """Requests of higher priority go first; see runtime/scheduling/rank.py."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """The client has disconnected. A Cancel of a request that has ended has no effect."""

    request_id: str
    why: str = "client gone"


@dataclass(frozen=True, slots=True)
class Finish:
    """The server found a stop string: the engine ends the request as "ok" and generates no more tokens."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function (audit, drain) that the engine thread runs between two steps. `do` delivers its own result."""

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
    """stop | length when the outcome is ok, else None."""


def end_of(failure: RuntimeFailure) -> End:
    """Return the terminal outcome of a request that ends with `failure`."""
    if failure.severity is Severity.FATAL:
        outcome = "fatal"
    else:
        outcome = {429: "refused", 503: "refused", 504: "timeout"}.get(failure.http, "http_error")
    return End(outcome, failure.http, failure.code, str(failure))


@dataclass(slots=True)
class Ended:
    """The engine's record of an ended request: times in ns of the engine's clock (None: never), counts in tokens.

    The server adds how the answer was delivered.
    """

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
    """The output of one request in one step: new tokens, or its end, or both."""

    request_id: str
    tokens: tuple[Sampled, ...]
    ended: Ended | None = None


class Sink(Protocol):
    """Receives the outputs of a step on the engine's thread. It must return at once."""

    def step(self, outputs: list[Output]) -> None:
        """Receive all outputs of one step, in batch order."""
        ...


class Mailbox:
    """The engine's one inbox: mail and wake-ups. At most `submits_max` submits wait in it; other mail is unbounded.

    `on_mail` is called for each mail and wake-up, on the sender's thread, with the lock held. It serves an engine that
    does not block in `wait`, such as the one in virtual time.
    """

    def __init__(self, submits_max: int, on_mail: Callable[[], None] = lambda: None) -> None:
        self._submits_max = submits_max
        self._on_mail = on_mail
        self._mail: deque[Mail] = deque()
        self._submits = 0
        self._woken = False
        self._condition = threading.Condition()

    def offer(self, submit: Submit) -> bool:
        """Queue a submit. Return False when the bound is reached."""
        with self._condition:
            if self._submits >= self._submits_max:
                return False
            self._submits += 1
            self._mail.append(submit)
            self._wake_engine()
            return True

    def post(self, mail: Cancel | Finish | Call) -> None:
        """Queue mail that is never refused."""
        with self._condition:
            self._mail.append(mail)
            self._wake_engine()

    def wake(self) -> None:
        """Wake the engine without mail, as a completed launch does."""
        with self._condition:
            self._wake_engine()

    def take(self) -> list[Mail]:
        """Remove and return all mail, oldest first."""
        if not self._woken and not self._mail:  # the usual case in virtual time; mail that arrives now wakes again
            return []
        with self._condition:
            mail = list(self._mail)
            self._mail.clear()
            self._submits = 0
            self._woken = False
            return mail

    def unread(self) -> list[Mail]:
        """Return the mail that waits, and leave it there."""
        with self._condition:
            return list(self._mail)

    def wait(self, timeout_s: float | None) -> None:
        """Block until there is mail or a wake-up, or until `timeout_s` has passed."""
        with self._condition:
            self._condition.wait_for(lambda: self._woken, timeout_s)

    def _wake_engine(self) -> None:
        self._woken = True
        self._condition.notify()
        self._on_mail()
