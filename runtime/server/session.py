"""One request between its client and the engine. It is plain state: no socket, no event loop, no thread, no wait.

    engine -> push(Output) ---> [outputs] ---> next() -> Event -> the peer writes it -> sent()
    client gone, cut, error --> leave(why) -> Cancel to the engine
    engine silent too long ---> end_by_server(End)

The peer carries events to the client: it is a writer of HTTP responses, or the client of a virtual run. It is woken
whenever `next` may give another event. The `served` row is written when two facts are known: how the engine ended the
request, and how its answer was delivered.
"""

from collections import deque
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from faults import Kind
from runtime.core.env import Env
from runtime.core.errors import DeadlineExceeded
from runtime.core.messages import Cancel, End, Ended, Finish, Output, end_of
from runtime.core.work import Sampled
from runtime.server import events
from runtime.server.errors import Problem, problem_of_end, problem_of_failure
from runtime.server.events import CROSSING, Event
from runtime.server.points import SERVER_STREAM, StreamError
from runtime.server.request import Caller, Delivery, GenerationParams, HangUpRow, ServedRow, served_row
from runtime.server.text import Transcript


class Peer(Protocol):
    """Carries events to one client."""

    def wake(self) -> None:
        """`next` may give another event, or the client has left."""
        ...


P = TypeVar("P", bound=Peer)


class Host(Protocol[P]):
    """The part of the server that a session needs; `Admission` implements it."""

    env: Env

    def post(self, mail: Cancel | Finish) -> None:
        """Posts `mail` to the engine."""
        ...

    def count(self, mark: str) -> None:
        """Counts a rare path, by the name of its counter."""
        ...

    def generated(self, server_id: str) -> int | None:
        """The number of tokens that the engine has generated for a request; None when it has no such request."""
        ...

    def over(self, session: "Session[P]") -> None:
        """The request has ended and its answer is delivered or given up: writes the row. Called once."""
        ...


class Session(Generic[P]):
    """One request. All calls come from one thread. `text` is None in virtual time, where text is not read."""

    def __init__(
        self, host: Host[P], peer: P, caller: Caller, params: GenerationParams, give_up_ns: int, text: Transcript | None
    ) -> None:
        self.caller = caller
        self.peer = peer
        self.tokens_in = len(params.prompt)
        self.give_up_ns = give_up_ns
        """Time (ns) at which the server stops waiting for the engine, some time after the deadline."""
        self.ended: Ended | None = None
        """The end of the request, as the engine gave it; None before."""
        self.delivery: Delivery | None = None
        """The delivery of the answer; None before it is settled."""
        self.gone: str | None = None
        """Why the client is gone; None while it is there."""
        self._gone_ns = 0
        self._tokens_gone: int | None = None
        """Tokens that the engine had generated when the client was seen to be gone; None when it had ended by then."""
        self.started = False
        """True once the head of the stream is sent or next to be sent: errors are then sent in band."""
        self.held = False
        """True while a delay holds back all events."""
        self._host = host
        self._params = params
        self._text = text
        self._outputs: deque[Output] = deque()
        self._ready: deque[Event] = deque()
        """Events of the present output that `next` has not given yet."""
        self._point_crossed = False
        """True once the first of them has crossed the fault point."""
        self._decoding = False
        self._closing: Delivery | None = None
        """The delivery that `sent` will settle."""
        self._shown, self._kept = "", list[Sampled]()
        """Text and tokens so far, of an answer that is sent in one piece."""

    @property
    def backlog(self) -> int:
        """Number of outputs from the engine that wait for the client."""
        return len(self._outputs)

    # -- the engine's side --------------------------------------------------------------------------------------------

    def push(self, output: Output) -> None:
        """Takes an output of this request. Once the delivery is settled, only the end of the request matters."""
        if output.ended is not None:
            self.ended = output.ended
        if self.delivery is None:
            self._outputs.append(output)
            self.peer.wake()
        elif self.ended is not None:
            self._host.over(self)

    def end_by_server(self, end: End) -> None:
        """Ends the request with `end` and cancels it in the engine, unless the engine has ended it."""
        if self.ended is not None:
            return
        caller, now_ns = self.caller, self._host.env.clock.now_ns()
        self._host.post(Cancel(caller.server_id, end.message or end.outcome))
        ended = Ended(end, caller.arrive_ns, None, None, now_ns, self.tokens_in, 0, 0, 0)
        self.push(Output(caller.server_id, (), ended))

    def time_out(self) -> None:
        """Ends the request with 504, since the engine has not ended it by `give_up_ns`."""
        text = "the request's deadline has passed, and the engine does not answer"
        self.end_by_server(end_of(DeadlineExceeded(text)))

    # -- the client's side --------------------------------------------------------------------------------------------

    def next(self) -> Event | None:
        """The next event for the client; None when there is none until the peer is woken again."""
        if self.held or self.delivery is not None:
            return None
        while not self._ready:
            if not self._outputs:
                return None
            self._to_events(self._outputs.popleft())
        event = self._ready[0]
        if self._host.env.faults.armed and not self._point_crossed and isinstance(event, CROSSING):
            self._point_crossed = True
            if (broken := self._cross()) is not None:
                return broken
        self._point_crossed = False
        self._ready.popleft()
        if isinstance(event, events.Tokens):
            self._decoding = True
        return event

    def resume(self) -> None:
        """Ends the delay: events go on."""
        self.held = False
        self.peer.wake()

    def sent(self) -> None:
        """The last event was sent while the client was there: settles the delivery. A broken stream is cancelled."""
        assert self._closing is not None, "the answer is not at its end"
        self._settle(self._closing)
        if self._closing.code == StreamError.code:
            self.leave(StreamError.code)

    def leave(self, why: str) -> None:
        """The client is gone, for the reason `why`: cancels the request once and drops all events."""
        if self.gone is not None:
            return
        self.gone = why
        self._outputs.clear()
        self._ready.clear()
        self._gone_ns = self._host.env.clock.now_ns()
        if self.ended is None:
            self._host.post(Cancel(self.caller.server_id, why))
            # Read after the post: an engine that takes its mail in each step adds at most the token of one step.
            self._tokens_gone = self._host.generated(self.caller.server_id)
        self._settle(Delivery("cancelled", why))
        self.peer.wake()

    def fail(self) -> None:
        """The writer failed with an internal error: settles the delivery and cancels the request."""
        self._settle(Delivery("http_error", "internal_error"))
        self.leave("internal_error")

    def mark_sent(self, sampled: Sequence[Sampled]) -> None:
        """Counts these tokens as sent: fast-forward delivers the tokens of many steps at once, without events."""
        if self._params.stream:
            self.started = self._decoding = True
        else:
            self._kept += sampled

    def hang_up_row(self, proc: str) -> HangUpRow | None:
        """The row of table hang_up; None when the client stayed. The engine must have ended the request."""
        if self.gone is None:
            return None
        caller, ended = self.caller, self.ended
        assert ended is not None, f"{caller.server_id} is over and has no end"
        tokens = ended.tokens_out if self._tokens_gone is None else self._tokens_gone
        names = (caller.request, caller.server_id, proc, self._gone_ns, self.gone, tokens)
        return HangUpRow(*names, ended.end_ns, ended.end.outcome, ended.tokens_out)

    def row(self, proc: str, end_ns: int) -> ServedRow:
        """The row of the journal. The delivery must be settled."""
        assert self.delivery is not None
        stopped = self._text is not None and self._text.stopped
        return served_row(self.caller, proc, end_ns, self.delivery, self.ended, stopped=stopped)

    # -- from outputs to events ---------------------------------------------------------------------------------------

    def _to_events(self, output: Output) -> None:
        """Appends the events of one output to `_ready`."""
        ready, ended, params = self._ready, output.ended, self._params
        if ended is not None and ended.end.outcome != "ok":
            ready.append(self._error_event(problem_of_end(ended.end)))
            return
        text, sampled = self._take(output)
        if ended is not None and self._text is not None:
            text += self._text.flush()
        if not params.stream:
            self._shown += text
            self._kept += sampled
            if ended is not None:
                reason = self._reason(ended.end)
                self._closing = Delivery("ok", None, reason)
                ready.append(events.WholeAnswer(self._shown, self._kept, reason, ended))
            return
        if not self.started:
            self.started = True
            ready.append(events.HEAD)
            if params.role_first:
                ready.append(events.OPENING)
        if text or sampled:
            ready.append(events.Tokens(text, sampled))
        if ended is not None:
            self._close(ended)

    def _close(self, ended: Ended) -> None:
        reason = self._reason(ended.end)
        self._ready.append(events.Finished(reason))
        if self._params.include_usage:
            self._ready.append(events.Counts(ended))
        self._ready.append(events.DONE)
        self._closing = Delivery("ok", None, reason)

    def _take(self, output: Output) -> tuple[str, tuple[Sampled, ...]]:
        """The text that the new tokens complete, and the tokens. After a stop string there are none."""
        if self._text is None:
            return "", output.tokens
        if self._text.stopped:
            return "", ()
        text = self._text.push([each.token for each in output.tokens])
        if self._text.stopped and output.ended is None:
            self._host.post(Finish(self.caller.server_id))
        return text, output.tokens

    def _reason(self, end: End) -> str:
        return "stop" if self._text is not None and self._text.stopped else end.finish or "stop"

    def _error_event(self, problem: Problem) -> events.Refusal | events.InBandError:
        """The event of an error: an HTTP error before the head, an error in band after it."""
        if not self.started:
            self._closing = Delivery(problem.outcome, problem.code)
            return events.Refusal(problem)
        self._host.count("stream.inband_error")
        outcome = "inband_error" if problem.outcome == "http_error" else problem.outcome
        self._closing = Delivery(outcome, problem.code)
        return events.InBandError(problem)

    def _cross(self) -> Event | None:
        """Crosses the fault point of the stream. Gives the event of a fault; None when the next event can be sent."""
        caller = self.caller
        try:
            effect = self._host.env.faults.fire(
                SERVER_STREAM,
                key=caller.request,
                request=caller.request,
                group=caller.group,
                phase="decode" if self._decoding else "prefill",
                load=caller.load,
            )
        except StreamError as failure:
            self._ready.clear()
            self._outputs.clear()
            return self._error_event(problem_of_failure(failure))
        if effect is None:
            return None
        if effect.kind is Kind.CUT:
            self._host.count("stream.cut")
            self.leave("stream_cut")
            return events.CUT
        assert effect.kind is Kind.DELAY, f"{SERVER_STREAM.name} does not know {effect.kind}"
        self.held = True
        return events.Delay(effect)

    def _settle(self, delivery: Delivery) -> None:
        """Sets the delivery; the first call counts. The row is written when the engine has ended the request too."""
        if self.delivery is not None:
            return
        self.delivery = delivery
        if self.ended is not None:
            self._host.over(self)
