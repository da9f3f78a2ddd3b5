"""Admits requests to the engine and keeps the sessions of all open ones. It does no IO.

GenerationParams -> admit: fatal? closed? fits the context? -> mailbox.offer -> Session in `open`
engine's outputs -> deliver -> Session.push ... delivered and ended -> one `served` row, removed from `open`
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic

from runtime.core.env import Env
from runtime.core.errors import InvalidRequest, RuntimeFailure
from runtime.core.messages import Cancel, End, Finish, Mailbox, Output, Submit
from runtime.core.work import Sampling
from runtime.server.errors import Problem, problem, problem_of_failure
from runtime.server.request import Caller, Delivery, GenerationParams, ServedRow, served_row
from runtime.server.session import P, Session
from runtime.server.text import Decode, Transcript


class Rejected(Exception):
    """A request is not admitted; `problem` is the error for the client."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Terms:
    """The settings of admission."""

    proc: str
    """Name of this server process, written into each row."""
    context_tokens: int
    """Most tokens of prompt and answer together."""
    grace_s: float
    """Seconds that the server waits for the engine's own 504 after a deadline."""
    decode: Decode | None = None
    """Converts token ids to text; None in virtual time, where text is not read."""


class Admission(Generic[P]):
    """The open sessions of one server. All calls come from one thread. Implements `session.Host`."""

    def __init__(
        self,
        env: Env,
        mailbox: Mailbox,
        terms: Terms,
        fatal: Callable[[], RuntimeFailure | None],
        record: Callable[[ServedRow, Session[P] | None], None],
        count: Callable[[str], None],
        generated: Callable[[str], int | None],
        idle: Callable[[bool], None] = lambda idle: None,
    ) -> None:
        """`fatal` gives the error that ended the engine, if any. `record` takes each row, with the session if there was
        one. `count` counts rare paths. `generated` gives the tokens that the engine has generated for an open request.
        `idle` gets True when the last open request has ended, and False when one is open again."""
        self.open: dict[str, Session[P]] = {}
        """Server id -> session."""
        self.outcomes: Counter[str] = Counter()
        """Requests that are over, by the outcome of their row."""
        self.closed: Problem | None = None
        """When set, new requests are refused with this error."""
        self.open_since_ns = 0
        """Time (ns) at which `open` last became not empty."""
        self.env = env
        self.count = count
        self.generated = generated
        self.terms = terms
        self._mailbox = mailbox
        self._fatal = fatal
        self._record = record
        self._idle = idle

    def admit(self, params: GenerationParams, caller: Caller, peer: P) -> Session[P]:
        """Passes a request to the engine. Raises Rejected with the error for the client."""
        if (closed := self.closed_reason()) is not None:
            raise Rejected(closed)
        try:
            submit = self._submit(params, caller)
        except RuntimeFailure as failure:
            raise Rejected(problem_of_failure(failure)) from failure
        if not self._mailbox.offer(submit):
            self.count("mailbox.full")
            raise Rejected(problem(429, "the engine's inbox is full; retry after 1 s", "queue_full"))
        terms = self.terms
        text = None if terms.decode is None else Transcript(terms.decode, params.stops, params.stop_tokens)
        session = Session(self, peer, caller, params, submit.deadline_ns + round(terms.grace_s * 1e9), text)
        if not self.open:
            self.open_since_ns = caller.arrive_ns
            self._idle(False)
        self.open[caller.server_id] = session
        return session

    def closed_reason(self) -> Problem | None:
        """The error that new requests get now: the engine's fatal error or `closed`; None when they are admitted."""
        fatal = self._fatal()
        return problem_of_failure(fatal) if fatal is not None else self.closed

    def unhealthy_reason(self, progress_ns: int, stall_s: float) -> str | None:
        """Why requests can't be served now, or None when they can. It looks at progress: a process whose engine is
        stuck is unhealthy even if it answers HTTP. `progress_ns` is the time of the engine's last progress; `stall_s`
        is the longest time without any."""
        if (closed := self.closed_reason()) is not None:
            return f"{closed.code}: {closed.message}"
        # Idle time is no stall: the count starts when a request was open again.
        stalled_s = (self.env.clock.now_ns() - max(progress_ns, self.open_since_ns)) / 1e9
        if not self.open or stalled_s <= stall_s:
            return None
        return f"stalled: {len(self.open)} open requests and no progress for {stalled_s:.1f} s"

    def reject(self, caller: Caller, problem: Problem) -> None:
        """Writes the row of a request that was not admitted."""
        delivery = Delivery(problem.outcome, problem.code)
        self._write(served_row(caller, self.terms.proc, self.env.clock.now_ns(), delivery, None), None)

    def deliver(self, outputs: Iterable[Output]) -> None:
        """Passes outputs of the engine to their sessions. Outputs of requests that are no longer open are dropped."""
        for output in outputs:
            session = self.open.get(output.request_id)
            if session is not None:
                session.push(output)

    def end_overdue(self) -> None:
        """Ends each request that the engine has not ended by `give_up_ns`, some time after its deadline."""
        now_ns = self.env.clock.now_ns()
        for session in [one for one in self.open.values() if one.give_up_ns <= now_ns]:
            session.time_out()

    def end_all(self, end: End) -> None:
        """Ends every open request with `end`, unless the engine has ended it."""
        for session in list(self.open.values()):
            session.end_by_server(end)

    def post(self, mail: Cancel | Finish) -> None:
        """See Host."""
        self._mailbox.post(mail)

    def over(self, session: Session[P]) -> None:
        """See Host."""
        del self.open[session.caller.server_id]
        if not self.open:
            self._idle(True)
        self._write(session.row(self.terms.proc, self.env.clock.now_ns()), session)

    def _write(self, row: ServedRow, session: Session[P] | None) -> None:
        self.outcomes[row.outcome] += 1
        self._record(row, session)

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
    """A sampling seed made of the client's request id, so that a repeated run draws equal tokens in any order."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{request}".encode(), digest_size=8).digest()) >> 1
