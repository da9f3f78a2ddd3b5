"""Admission: who is let in to the engine, and the list of those who are inside. Pure state, as the sessions are.

GenerationParams -> admit: fatal? closed? fits the context? -> mailbox.offer -> Session in `open`
engine's outputs -> deliver -> the session's news ... answered and ended -> one `served` row, out of `open`
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol

from runtime.core.env import Env
from runtime.core.errors import InvalidRequest, RuntimeFailure
from runtime.core.messages import Cancel, End, Finish, Mailbox, Output, Submit
from runtime.core.work import Sampling
from runtime.server.errors import Problem, of_failure, problem
from runtime.server.request import Answered, Caller, GenerationParams, ServedRow, served_row
from runtime.server.session import P, Session
from runtime.server.text import Decode, Transcript


class Rejected(Exception):
    """A request is not let in; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Flag(Protocol):
    """An `asyncio.Event`, or what is like it."""

    def set(self) -> None:
        """Nobody is inside."""
        ...

    def clear(self) -> None:
        """Somebody is."""
        ...


@dataclass(frozen=True, slots=True)
class Terms:
    """The figures that admission decides by."""

    proc: str
    """The name of this server process, written into each row."""
    context_tokens: int
    """Prompt and answer together may not be longer."""
    grace_s: float
    """Seconds that the server waits for the engine's own 504 after a deadline."""
    decode: Decode | None = None
    """From token ids to text; None where nobody reads text."""


class Admission(Generic[P]):
    """Belongs to one thread. Implements `session.Host`."""

    def __init__(
        self,
        env: Env,
        mailbox: Mailbox,
        terms: Terms,
        fatal: Callable[[], RuntimeFailure | None],
        record: Callable[[ServedRow, Session[P] | None], None],
        count: Callable[[str], None],
        empty: Flag | None = None,
    ) -> None:
        """`fatal` gives the engine's last word, `record` takes each row with its session if it had one, `count` counts
        rare paths, and `empty` is set while nobody is inside."""
        self.open: dict[str, Session[P]] = {}
        """By the server's id."""
        self.closed: Problem | None = None
        """Set: nobody new is let in."""
        self.open_since_ns = 0
        """When `open` last went from empty to not empty."""
        self.env = env
        self.count = count
        self.terms = terms
        self._mailbox = mailbox
        self._fatal = fatal
        self._record = record
        self._empty = empty
        if empty is not None:
            empty.set()

    def admit(self, params: GenerationParams, caller: Caller, peer: P) -> Session[P]:
        """Hand a request to the engine. Raises Rejected, with what the client is told."""
        if (shut := self.shut()) is not None:
            raise Rejected(shut)
        try:
            submit = self._submit(params, caller)
        except RuntimeFailure as failure:
            raise Rejected(of_failure(failure)) from failure
        if not self._mailbox.offer(submit):
            self.count("mailbox.full")
            raise Rejected(problem(429, "the engine's inbox is full; retry after 1 s", "queue_full"))
        terms = self.terms
        text = None if terms.decode is None else Transcript(terms.decode, params.stops, params.stop_tokens)
        session = Session(self, peer, caller, params, submit.deadline_ns + round(terms.grace_s * 1e9), text)
        if not self.open:
            self.open_since_ns = caller.arrive_ns
            if self._empty is not None:
                self._empty.clear()
        self.open[caller.server_id] = session
        return session

    def shut(self) -> Problem | None:
        """Why nobody can be let in now."""
        fatal = self._fatal()
        return of_failure(fatal) if fatal is not None else self.closed

    def reject(self, caller: Caller, problem: Problem) -> None:
        """Write the row of one that never got in."""
        answered = Answered(problem.outcome, problem.code)
        self._record(served_row(caller, self.terms.proc, self.env.clock.now_ns(), answered, None), None)

    def deliver(self, outputs: Iterable[Output]) -> None:
        """News of the engine. A request that the server gave up on is known no more: its row is written."""
        for output in outputs:
            session = self.open.get(output.request_id)
            if session is not None:
                session.push(output)

    def end_silent(self) -> None:
        """Speak the last word for everybody whose engine has said nothing until long after the deadline."""
        now_ns = self.env.clock.now_ns()
        for session in [one for one in self.open.values() if one.silent_ns <= now_ns]:
            session.silence()

    def end_all(self, end: End) -> None:
        """Speak the last word for everybody inside."""
        for session in list(self.open.values()):
            session.end_by_server(end)

    def post(self, mail: Cancel | Finish) -> None:
        """See Host."""
        self._mailbox.post(mail)

    def over(self, session: Session[P]) -> None:
        """See Host."""
        del self.open[session.caller.server_id]
        if not self.open and self._empty is not None:
            self._empty.set()
        self._record(session.row(self.terms.proc, self.env.clock.now_ns()), session)

    def _submit(self, params: GenerationParams, caller: Caller) -> Submit:
        room = self.terms.context_tokens - len(params.prompt)
        max_tokens = max(room, 1) if params.max_tokens is None else params.max_tokens
        if not params.prompt:
            raise InvalidRequest("the prompt is empty; give at least one token", params.param)
        if max_tokens > room:
            raise InvalidRequest(
                f"the model's context is {self.terms.context_tokens} tokens; the prompt has {len(params.prompt)} and "
                f"{max_tokens} more were asked for; shorten the prompt or ask for fewer",
                params.param,
                "context_length_exceeded",
            )
        seed = params.seed if params.seed is not None else _seed(self.env.seed, caller.request)
        return Submit(
            request_id=caller.server_id,
            prompt=tuple(params.prompt),
            max_tokens=max_tokens,
            sampling=Sampling(params.temperature, params.top_p, seed, params.logprobs),
            arrive_ns=caller.arrive_ns,
            deadline_ns=caller.arrive_ns + round(caller.timeout_s * 1e9),
            stop_tokens=params.stop_tokens,
            group=caller.group,
            priority=params.priority,
        )


def _seed(seed: int, request: str) -> int:
    """Drawn from the client's own id, so that a repeated run draws the same tokens in whatever order they arrive."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{request}".encode(), digest_size=8).digest()) >> 1
