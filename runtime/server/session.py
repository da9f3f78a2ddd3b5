"""One request between its client and the engine, as pure state: no socket, no loop, no thread, no wait.

    engine -> push(Output) ---> [news] ---> next() -> Event -> the peer writes it -> sent()
    client gone, cut, error --> leave(why) -> Cancel to the engine
    engine silent too long ---> end_by_server(End)

The peer is whoever carries events to the client: a writer of HTTP responses, or the client of a virtual run. It is
woken whenever `next` may have more to say. Two things must be known before the `served` row is written: how the
engine ended the request, and how its answer was delivered.
"""

from collections import deque
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from faults import Kind
from runtime.core.env import Env
from runtime.core.messages import Cancel, End, Ended, Finish, Output
from runtime.core.work import Sampled
from runtime.server import events
from runtime.server.errors import Problem, of_end, of_failure
from runtime.server.events import CROSSING, Event
from runtime.server.points import SERVER_STREAM, StreamError
from runtime.server.request import Answered, Caller, GenerationParams, ServedRow, served_row
from runtime.server.text import Transcript


class Peer(Protocol):
    """Carries events to one client."""

    def wake(self) -> None:
        """`next` may have more to say, or nobody listens any more."""
        ...


P = TypeVar("P", bound=Peer)


class Host(Protocol[P]):
    """The server around a session, as far as the session needs it; `Admission` is one."""

    env: Env

    def post(self, mail: Cancel | Finish) -> None:
        """Tell the engine."""
        ...

    def count(self, mark: str) -> None:
        """Count a rare path."""
        ...

    def over(self, session: "Session[P]") -> None:
        """Both halves are known: the row can be written. Called once."""
        ...


class Session(Generic[P]):
    """Belongs to one thread. `text` is None where nobody reads text, as in virtual time."""

    def __init__(
        self, host: Host[P], peer: P, caller: Caller, params: GenerationParams, silent_ns: int, text: Transcript | None
    ) -> None:
        self.caller = caller
        self.peer = peer
        self.tokens_in = len(params.prompt)
        self.silent_ns = silent_ns
        """When the server stops waiting for the engine: some time after the deadline."""
        self.ended: Ended | None = None
        """The engine's last word, once it has spoken."""
        self.answered: Answered | None = None
        """How the answer was delivered, once that is settled."""
        self.gone: str | None = None
        """Why nobody listens any more; None while somebody does."""
        self.started = False
        """The head of the stream is out, or next in turn: errors can only come in band."""
        self.held = False
        """A delay holds back all events."""
        self._host = host
        self._params = params
        self._text = text
        self._news: deque[Output] = deque()
        self._ready: deque[Event] = deque()
        """Events of the news in turn that are not handed out yet."""
        self._crossed = False
        """The first of them has passed the fault point."""
        self._decoding = False
        self._closing: Answered | None = None
        """The delivery that is settled once the event handed out last was sent."""
        self._shown, self._kept = "", list[Sampled]()
        """Text and tokens of an answer in one piece."""

    @property
    def backlog(self) -> int:
        """News from the engine that wait for the client."""
        return len(self._news)

    # -- the engine's side --------------------------------------------------------------------------------------------

    def push(self, output: Output) -> None:
        """News of this request. What comes after the answer is settled only tells how the engine ended."""
        if output.ended is not None:
            self.ended = output.ended
        if self.answered is None:
            self._news.append(output)
            self.peer.wake()
        elif self.ended is not None:
            self._host.over(self)

    def end_by_server(self, end: End) -> None:
        """The server speaks the last word because the engine does not."""
        if self.ended is not None:
            return
        caller, now_ns = self.caller, self._host.env.clock.now_ns()
        self._host.post(Cancel(caller.server_id, end.message or end.outcome))
        ended = Ended(end, caller.arrive_ns, None, None, now_ns, self.tokens_in, 0, 0, 0)
        self.push(Output(caller.server_id, (), ended))

    def silence(self) -> None:
        """The engine has said nothing until `silent_ns`."""
        text = "the request's deadline has passed, and the engine does not answer"
        self.end_by_server(End("timeout", 504, "deadline_exceeded", text))

    # -- the client's side --------------------------------------------------------------------------------------------

    def next(self) -> Event | None:
        """The next event for the client. None: there is none before the peer is woken again."""
        if self.held or self.answered is not None:
            return None
        while not self._ready:
            if not self._news:
                return None
            self._turn(self._news.popleft())
        event = self._ready[0]
        if self._host.env.faults.armed and not self._crossed and isinstance(event, CROSSING):
            self._crossed = True
            if (broken := self._cross()) is not None:
                return broken
        self._crossed = False
        self._ready.popleft()
        if isinstance(event, events.Tokens):
            self._decoding = True
        return event

    def resume(self) -> None:
        """The delay is over."""
        self.held = False
        self.peer.wake()

    def sent(self) -> None:
        """The last event is on its way, and the client was still there. The engine need not go on for a stream that
        broke."""
        assert self._closing is not None, "the answer is not at its end"
        self._settle(self._closing)
        if self._closing.code == StreamError.code:
            self.leave(StreamError.code)

    def leave(self, why: str) -> None:
        """Nobody listens any more: the engine is told, once, and what was not sent is dropped."""
        if self.gone is not None:
            return
        self.gone = why
        self._news.clear()
        self._ready.clear()
        if self.ended is None:
            self._host.post(Cancel(self.caller.server_id, why))
        self._settle(Answered("cancelled", why))
        self.peer.wake()

    def fail(self) -> None:
        """The writer broke off by an error of our own."""
        self._settle(Answered("http_error", "internal_error"))
        self.leave("internal_error")

    def told(self, sampled: Sequence[Sampled]) -> None:
        """The client knows these tokens already: fast-forward tells it many steps at once, past the events."""
        if self._params.stream:
            self.started = self._decoding = True
        else:
            self._kept += sampled

    def row(self, proc: str, end_ns: int) -> ServedRow:
        """The row of the journal, once the request is over."""
        assert self.answered is not None
        return served_row(self.caller, proc, end_ns, self.answered, self.ended)

    # -- from news to events ------------------------------------------------------------------------------------------

    def _turn(self, output: Output) -> None:
        """The events of one piece of news."""
        ready, ended, params = self._ready, output.ended, self._params
        if ended is not None and ended.end.outcome != "ok":
            ready.append(self._bad(of_end(ended.end)))
            return
        text, sampled = self._take(output)
        if ended is not None and self._text is not None:
            text += self._text.flush()
        if not params.stream:
            self._shown += text
            self._kept += sampled
            if ended is not None:
                reason = self._reason(ended.end)
                self._closing = Answered("ok", None, reason)
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
        self._closing = Answered("ok", None, reason)

    def _take(self, output: Output) -> tuple[str, tuple[Sampled, ...]]:
        """The tokens, with the text that they let the client see. After a stop string there are none."""
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

    def _bad(self, problem: Problem) -> events.Refusal | events.InBandError:
        """A true HTTP error before the head, an error in band after it."""
        if not self.started:
            self._closing = Answered(problem.outcome, problem.code)
            return events.Refusal(problem)
        self._host.count("stream.inband_error")
        outcome = "inband_error" if problem.outcome == "http_error" else problem.outcome
        self._closing = Answered(outcome, problem.code)
        return events.InBandError(problem)

    def _cross(self) -> Event | None:
        """Cross the fault point of the stream for the first event in turn. None: the event goes out."""
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
            self._news.clear()
            return self._bad(of_failure(failure))
        if effect is None:
            return None
        if effect.kind is Kind.CUT:
            self._host.count("stream.cut")
            self.leave("stream_cut")
            return events.CUT
        assert effect.kind is Kind.DELAY, f"{SERVER_STREAM.name} does not know {effect.kind}"
        self.held = True
        return events.Delay(effect)

    def _settle(self, answered: Answered) -> None:
        """How the answer was delivered; the first word counts. The row waits for the engine's word."""
        if self.answered is not None:
            return
        self.answered = answered
        if self.ended is not None:
            self._host.over(self)
