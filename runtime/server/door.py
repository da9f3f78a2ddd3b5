"""Admission: who is let in to the engine, and the list of those who are inside.

body -> Ask -> admit: fatal? closed? fits the context? -> mailbox.offer -> Exchange in `open`
engine's outputs -> deliver -> the exchange's queue ... answered and ended -> one row, out of `open`
"""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from runtime.core.edge import Cancel, End, Output, Submit
from runtime.core.env import Event
from runtime.core.errors import InvalidRequest, RuntimeFailure
from runtime.core.work import Sampling
from runtime.server.config import ServerConfig
from runtime.server.errors import Problem, of_failure, problem
from runtime.server.meter import Meter
from runtime.server.outcomes import Outcomes
from runtime.server.ports import Served
from runtime.server.stream import Caller, Exchange


@dataclass(frozen=True, slots=True)
class Ask:
    """A request of either endpoint, read and checked."""

    prompt: Sequence[int]
    param: str
    """The field that the prompt came from."""
    max_tokens: int | None
    """None: as many as the context still holds."""
    temperature: float
    top_p: float
    seed: int | None
    logprobs: int | None
    stops: tuple[str, ...]
    stop_tokens: frozenset[int]
    stream: bool
    include_usage: bool
    token_ids: bool
    """Show the ids of the answer's tokens."""
    priority: int = 0
    """Higher goes first, as everywhere inside."""


class Turned(Exception):
    """The door stays shut; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Door:
    """Belongs to the event loop's thread."""

    def __init__(self, served: Served, config: ServerConfig, outcomes: Outcomes, meter: Meter, proc: str) -> None:
        self.open: dict[str, Exchange] = {}
        self.closed: Problem | None = None
        """Set: nobody new is let in."""
        self.open_since_ns = 0
        """When `open` last went from empty to not empty."""
        self.empty = asyncio.Event()
        self.empty.set()
        self.served = served
        self.config = config
        self._outcomes = outcomes
        self._meter = meter
        self.proc = proc

    def admit(self, ask: Ask, caller: Caller) -> Exchange:
        """Hand a request to the engine. Errors: Turned, with what the client is told."""
        if (shut := self.shut()) is not None:
            raise Turned(shut)
        try:
            submit = self._submit(ask, caller)
        except RuntimeFailure as failure:
            raise Turned(of_failure(failure)) from failure
        if not self.served.mailbox.offer(submit):
            self.served.env.marks.hit("mailbox.full")
            raise Turned(problem(429, "the engine's inbox is full; retry after 1 s", "queue_full"))
        exchange = Exchange(
            caller, submit.deadline_ns, len(submit.prompt), self.config.stream_events_max, self._post_cancel
        )
        if not self.open:
            self.open_since_ns = caller.arrive_ns
            self.empty.clear()
        self.open[caller.server_id] = exchange
        self._outcomes.know(caller.server_id, caller.request)
        return exchange

    def shut(self) -> Problem | None:
        """Why nobody can be let in now."""
        fatal = self.served.fatal
        return of_failure(fatal) if fatal is not None else self.closed

    def deliver(self, outputs: list[Output], events: list[Event]) -> None:
        """One step's news, from the sink."""
        now_ns = self.served.env.clock.now_ns()
        for event in events:
            number = float(event.value) if _is_number(event.value) else None
            detail = event.detail if number is not None or not event.value else f"{event.value}: {event.detail}"
            self._outcomes.event(event.t_ns, event.kind, number, detail)
        for output in outputs:
            exchange = self.open.get(output.request_id)
            if exchange is None:
                continue  # the server gave up on it and said so; its row is written
            if output.tokens:
                self._meter.tokens(exchange, len(output.tokens), now_ns)
            exchange.push(output)
            if exchange.ended is not None and exchange.answered is not None:
                self._leave(exchange)

    def answered(self, exchange: Exchange, outcome: str, code: str | None, finish: str | None) -> None:
        """The client has its answer, or never will. The row waits for the engine's word, unless the server gave it."""
        exchange.answered = (outcome, code, finish)
        if exchange.ended is not None:
            self._leave(exchange)

    def turned(self, caller: Caller, problem: Problem) -> None:
        """The row of one that never got in."""
        now_ns = self.served.env.clock.now_ns()
        self._row(caller, now_ns, problem.outcome, problem.code, None)

    def give_up(self, exchange: Exchange, end: End) -> None:
        """The server's last word for one whose engine says nothing."""
        self._post_cancel(exchange.server_id, end.message or end.outcome)
        exchange.end_by_server(end, self.served.env.clock.now_ns())

    def end_all(self, end: End) -> None:
        """The server's last word for everybody inside."""
        for exchange in list(self.open.values()):
            if exchange.ended is None:
                self.give_up(exchange, end)
            if exchange.answered is not None:
                self._leave(exchange)

    def _submit(self, ask: Ask, caller: Caller) -> Submit:
        room = self.served.context_tokens - len(ask.prompt)
        max_tokens = max(room, 1) if ask.max_tokens is None else ask.max_tokens
        if not ask.prompt:
            raise InvalidRequest("the prompt is empty; give at least one token", ask.param)
        if max_tokens > room:
            raise InvalidRequest(
                f"the model's context is {self.served.context_tokens} tokens; the prompt has {len(ask.prompt)} and "
                f"{max_tokens} more were asked for; shorten the prompt or ask for fewer",
                ask.param,
                "context_length_exceeded",
            )
        vocab_size = self.served.tokenizer.vocab_size
        if max(ask.prompt) >= vocab_size:
            raise InvalidRequest(f"token {max(ask.prompt)} is not below {vocab_size}, the vocabulary's size", ask.param)
        seed = ask.seed if ask.seed is not None else _seed(self.served.env.seed, caller.request)
        return Submit(
            request_id=caller.server_id,
            prompt=tuple(ask.prompt),
            max_tokens=max_tokens,
            sampling=Sampling(ask.temperature, ask.top_p, seed, ask.logprobs),
            arrive_ns=caller.arrive_ns,
            deadline_ns=caller.arrive_ns + round(caller.timeout_s * 1e9),
            stop_tokens=ask.stop_tokens,
            group=caller.group,
            priority=ask.priority,
        )

    def _post_cancel(self, server_id: str, why: str) -> None:
        self.served.mailbox.post(Cancel(server_id, why))

    def _leave(self, exchange: Exchange) -> None:
        if self.open.pop(exchange.server_id, None) is None:
            return
        if not self.open:
            self.empty.set()
        assert exchange.answered is not None
        outcome, code, finish = exchange.answered
        now_ns = self.served.env.clock.now_ns()
        self._meter.left(exchange, outcome, finish, now_ns)
        self._row(exchange.caller, now_ns, outcome, code, finish, exchange)

    def _row(
        self,
        caller: Caller,
        end_ns: int,
        outcome: str,
        code: str | None,
        finish: str | None,
        exchange: Exchange | None = None,
    ) -> None:
        ended = exchange.ended if exchange is not None else None
        row = {
            "request": caller.request,
            "server_id": caller.server_id,
            "proc": self.proc,
            "arrive_ns": caller.arrive_ns,
            "admit_ns": ended.admit_ns if ended else None,
            "first_ns": ended.first_ns if ended else None,
            "end_ns": end_ns,
            "outcome": outcome,
            "finish": finish,
            "code": code,
            "tokens_in": ended.tokens_in if ended else None,
            "tokens_out": ended.tokens_out if ended else None,
            "tokens_cached": ended.tokens_cached if ended else None,
            "preempted": ended.preempted if ended else None,
            "fallback": None,
        }
        self._outcomes.tell("served", row)


def _seed(seed: int, request: str) -> int:
    """Of the client's own id, so that a repeated run draws the same tokens whatever the order of arrival."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{request}".encode(), digest_size=8).digest()) >> 1


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
