"""The virtual server: what HTTP does to a request between client and engine, without HTTP.

    client -> receive: fatal? fits the context? -> mailbox.offer -> Exchange in `open`
    engine -> step(outputs) -> head, pieces, end -> client          (crossing `server.stream` where the live one does)

Two things must be known before a `served` row is written: how the engine ended it, and how its answer was delivered.
Rules and words are those of runtime/server (door.py, reply.py, stream.py); what a client is told is its errors.py.
"""

from collections import deque
from collections.abc import Callable

from faults import Effect, Kind
from harness.load.outcome import ClientEnd
from harness.virtual.client import Client
from harness.virtual.rows import Rows
from runtime.core.edge import Cancel, End, Ended, Mailbox, Output, Submit
from runtime.core.env import Env
from runtime.core.errors import DeviceLost, InvalidRequest
from runtime.core.work import Sampled, Sampling
from runtime.device.virtual_time import VirtualTime
from runtime.server.errors import Problem, of_end, of_failure, problem
from runtime.server.points import SERVER_STREAM, StreamError

PROC = "server"
OFTEN = frozenset({"kv.evict", "kv.unpublished"})
"""Marks that come with nearly every step."""


class Exchange:
    """One request inside. `gone`: why nobody listens any more; `answered`: (outcome, code, finish) once settled."""

    __slots__ = ("answered", "arrive_ns", "client", "ended", "gone", "held", "phase", "started", "unsent")

    def __init__(self, client: Client, arrive_ns: int) -> None:
        self.client = client
        self.arrive_ns = arrive_ns
        self.ended: Ended | None = None
        self.gone: str | None = None
        self.answered: tuple[str, str | None, str | None] | None = None
        self.started = False
        self.phase = "prefill"
        self.unsent: list[Sampled] = []
        """Of an answer that goes out in one piece."""
        self.held: deque[Output] | None = None
        """News that wait for a delay of the stream to be over; None while nothing holds it up."""


class VirtualServer:
    """Implements the engine's Sink. `wake` asks for another turn of the engine, `over` is told of each client's end."""

    def __init__(
        self,
        env: Env,
        time: VirtualTime,
        mailbox: Mailbox,
        rows: Rows,
        context_tokens: int,
        timeout_s: float,
        wake: Callable[[], None],
        over: Callable[[Client], None],
    ) -> None:
        self.open: dict[str, Exchange] = {}
        self.fatal: Callable[[], DeviceLost | None] = lambda: None
        """The engine's last word. Filled by who builds both."""
        self.catch_up: Callable[[], None] = lambda: None
        """What a leap has not told yet is told. Filled by who builds both."""
        self._env = env
        self._time = time
        self._mailbox = mailbox
        self._rows = rows
        self._context_tokens = context_tokens
        self._timeout_ns = round(timeout_s * 1e9)
        self._wake = wake
        self._over = over

    # -- the client's side --------------------------------------------------------------------------------------------

    def receive(self, client: Client) -> None:
        """A request arrives."""
        now_ns, asked = self._time.now_ns(), client.asked
        if (shut := self._shut(client)) is not None:
            self._row(client, now_ns, None, (shut.outcome, shut.code, None))
            self._refuse(client, shut)
            return
        # The prompt is greedy: nothing is drawn, so the seed of the sampling says nothing.
        sampling = Sampling(logprobs=asked.logprobs)
        submit = Submit(
            request_id=asked.id,
            prompt=asked.prompt,
            max_tokens=asked.output_tokens,
            sampling=sampling,
            arrive_ns=now_ns,
            deadline_ns=now_ns + self._timeout_ns,
            group=asked.group or "",
        )
        if not self._mailbox.offer(submit):
            self._mark("mailbox.full")
            full = problem(429, "the engine's inbox is full; retry after 1 s", "queue_full")
            self._row(client, now_ns, None, (full.outcome, full.code, None))
            self._refuse(client, full)
            return
        self.open[asked.id] = Exchange(client, now_ns)
        self._wake()
        if asked.cancel is not None and asked.cancel.after_send():
            self.hang_up(client, ClientEnd.CANCELLED)

    def hang_up(self, client: Client, end: ClientEnd) -> None:
        """The client closes its connection: as planned, out of patience, or because the run stops."""
        self.catch_up()
        exchange = self.open.get(client.asked.id)
        if exchange is not None:
            self._leave(exchange, "client_gone")
            self._settle(exchange, "cancelled", "client_gone", None)
        self._end(client, end)

    # -- the engine's side --------------------------------------------------------------------------------------------

    def step(self, outputs: list[Output]) -> None:
        """See Sink: one step's news."""
        now_ns = self._time.now_ns()
        self.marked(now_ns)
        if events := self._env.events.take():
            self._rows.events(events)
        for output in outputs:
            exchange = self.open.get(output.request_id)
            if exchange is not None:
                self._deliver(exchange, output)

    def marked(self, t_ns: int, *, all_of_them: bool = False) -> None:
        """Write what was counted. Those that come often wait for the next sample, or for others to go with."""
        marks = self._env.marks
        if marks._fresh and (all_of_them or self._env.faults.armed or not marks._fresh.keys() <= OFTEN):
            self._rows.marks(t_ns, marks.take())

    def _deliver(self, exchange: Exchange, output: Output) -> None:
        if output.ended is not None:
            exchange.ended = output.ended
        if exchange.gone is None:
            if exchange.held is not None:
                exchange.held.append(output)
            else:
                self._tell(exchange, output, 0)
        if exchange.ended is not None and exchange.answered is not None:
            self._close(exchange)

    def _tell(self, exchange: Exchange, output: Output, crossed: int) -> None:
        """Hand one piece of news to the client. `crossed`: events of it that have crossed the fault point already,
        when it goes on after a delay."""
        client, ended, now_ns = exchange.client, output.ended, self._time.now_ns()
        if ended is not None and ended.end.outcome != "ok":
            self._bad_end(exchange, ended.end)
            return
        tokens = output.tokens
        if not client.asked.stream:
            exchange.unsent.extend(tokens)
            if ended is not None:
                self._settle(exchange, "ok", None, ended.end.finish)
                client.take(exchange.unsent)
                client.whole(now_ns, ended.end.finish)
                self._over(client)
            return
        if not exchange.started:
            exchange.started = True
            if client.head(now_ns):
                self.hang_up(client, ClientEnd.CANCELLED)
                return
        armed = self._env.faults.armed
        if tokens and crossed < 1:
            if armed and self._stopped(exchange, output, 1):
                return
            crossed = 1
        if tokens and crossed == 1:
            exchange.phase = "decode"
            if client.chunk(now_ns, tokens):
                self.hang_up(client, ClientEnd.CANCELLED)
                return
        if ended is None:
            return
        for event in (2, 3):  # why it is over, and the counts
            if armed and crossed < event and self._stopped(exchange, output, event):
                return
        self._settle(exchange, "ok", None, ended.end.finish)
        client.done(now_ns, ended.end.finish)
        self._over(client)

    def _bad_end(self, exchange: Exchange, end: End) -> None:
        """A true HTTP error before the head, an error in band after it."""
        found = of_end(end)
        if not exchange.started:
            self._settle(exchange, found.outcome, found.code, None)
            self._refuse(exchange.client, found)
            return
        self._in_band(exchange, found)

    def _in_band(self, exchange: Exchange, found: Problem) -> None:
        self._mark("stream.inband_error")
        outcome = "inband_error" if found.outcome == "http_error" else found.outcome
        self._settle(exchange, outcome, found.code, None)
        said = tuple(str(word) for key in ("code", "type") if (word := found.body["error"][key]))
        self._end(exchange.client, ClientEnd.DONE, said, f"{found.code}: {found.message}")

    # -- the fault point of the stream --------------------------------------------------------------------------------

    def _stopped(self, exchange: Exchange, output: Output, event: int) -> bool:
        """Cross `server.stream` for one event. True: this news goes no further, or not now."""
        asked = exchange.client.asked
        try:
            effect = self._env.faults.fire(
                SERVER_STREAM,
                key=asked.id,
                request=asked.id,
                group=asked.group or "",
                phase=exchange.phase,
                load=asked.load,
            )
        except StreamError as failure:
            self._in_band(exchange, of_failure(failure))
            self._leave(exchange, "stream_error")
            return True
        if effect is None:
            return False
        if effect.kind is Kind.CUT:
            self._mark("stream.cut")
            self._leave(exchange, "stream_cut")
            self._settle(exchange, "cancelled", "stream_cut", None)
            self._end(exchange.client, ClientEnd.CUT, error="ChunkedEncodingError")
            return True
        assert effect.kind is Kind.DELAY, f"{SERVER_STREAM.name} does not know {effect.kind}"
        self._hold(exchange, output, event, effect)
        return True

    def _hold(self, exchange: Exchange, output: Output, event: int, effect: Effect) -> None:
        """This stream is late, and everything behind this news with it; nobody else is held up."""
        waiting = exchange.held = exchange.held if exchange.held is not None else deque()
        over = False

        def go_on() -> None:
            nonlocal over
            if over:
                return
            over = True
            effect.wait(0)
            behind, exchange.held = list(waiting), None
            waiting.clear()
            if exchange.gone is None:
                self._tell(exchange, output, event)
            for later in behind:
                if exchange.held is not None:
                    exchange.held.append(later)
                elif exchange.gone is None:
                    self._tell(exchange, later, 0)
            if exchange.ended is not None and exchange.answered is not None:
                self._close(exchange)

        self._time.at(max(effect.due_ns, self._time.now_ns()), go_on)
        effect.on_release(lambda: self._time.at(self._time.now_ns(), go_on))

    def _mark(self, name: str) -> None:
        """What the server itself counts is written at once: no turn of the engine may follow."""
        self._rows.marks(self._time.now_ns(), {name: 1})

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _shut(self, client: Client) -> Problem | None:
        """Why it can't be let in."""
        asked, fatal = client.asked, self.fatal()
        if asked.kind == "malformed":
            return problem(400, f"the body is {asked.prompt_sha}", "invalid_value")
        if fatal is not None:
            return of_failure(fatal)
        needed = len(asked.prompt) + asked.output_tokens
        if needed > self._context_tokens:
            text = f"the model's context is {self._context_tokens} tokens, and {needed} were asked for"
            return of_failure(InvalidRequest(text, "max_tokens", "context_length_exceeded"))
        return None

    def _refuse(self, client: Client, found: Problem) -> None:
        client.refused(self._time.now_ns(), found.http, f"{found.code}: {found.message}", found.retry_after_s)
        self._over(client)

    def _end(self, client: Client, end: ClientEnd, said: tuple[str, ...] = (), error: str | None = None) -> None:
        client.over(self._time.now_ns(), end, said, error)
        self._over(client)

    def _leave(self, exchange: Exchange, why: str) -> None:
        """Nobody listens any more: the engine is told, once."""
        if exchange.gone is not None:
            return
        exchange.gone = why
        if exchange.held is not None:
            exchange.held.clear()
        if exchange.ended is None:
            self._mailbox.post(Cancel(exchange.client.asked.id, why))
            self._wake()

    def _settle(self, exchange: Exchange, outcome: str, code: str | None, finish: str | None) -> None:
        """How the answer was delivered. The row waits for the engine's word."""
        exchange.answered = (outcome, code, finish)
        if exchange.ended is not None:
            self._close(exchange)

    def _close(self, exchange: Exchange) -> None:
        if self.open.pop(exchange.client.asked.id, None) is None:
            return
        assert exchange.answered is not None
        self._row(exchange.client, exchange.arrive_ns, exchange.ended, exchange.answered)

    def _row(
        self, client: Client, arrive_ns: int, ended: Ended | None, answered: tuple[str, str | None, str | None]
    ) -> None:
        outcome, code, finish = answered
        known = (
            (None, None, None, None, None, None)
            if ended is None
            else (
                ended.admit_ns,
                ended.first_ns,
                ended.tokens_in,
                ended.tokens_out,
                ended.tokens_cached,
                ended.preempted,
            )
        )
        admit_ns, first_ns, tokens_in, tokens_out, cached, preempted = known
        name, now_ns = client.asked.id, self._time.now_ns()
        stamps = (arrive_ns, admit_ns, first_ns, now_ns)
        counts = (tokens_in, tokens_out, cached, preempted)
        self._rows.put("served", (name, name, PROC, *stamps, outcome, finish, code, *counts, None))
