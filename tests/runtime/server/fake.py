"""An engine with no model: one scripted token a request and turn, by hand or on a thread. Never sleeps."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from faults import Faults
from runtime.core.env import Env
from runtime.core.errors import DeviceLost, RuntimeFailure
from runtime.core.ledger import Ledger
from runtime.core.messages import Call, Cancel, End, Ended, Finish, Mail, Mailbox, Output, Sink, Submit
from runtime.core.ports import Clock
from runtime.core.work import Sampled
from runtime.guard.audit import AuditRow
from runtime.memory.kv.counts import PoolCount
from runtime.memory.spans.usage import MemoryFigures, Usage
from runtime.points import catalogue
from runtime.server.ports import EventSink
from runtime.stats import EngineStats

EOS = 256
BIG = 300
"""A token whose text is 4000 characters, for clients that do not read."""
WAIT_S = 60.0
USAGE = Usage("activation", 4096, 700, 768, 0, 3328, 3000, 0, 3, 9, 8)


class WallClock:
    """CLOCK_MONOTONIC."""

    def now_ns(self) -> int:
        return time.monotonic_ns()


class ByteTokenizer:
    """A token is a byte; 256 ends an answer; 300 is long."""

    vocab_size = 512
    stop_tokens = frozenset({EOS})

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        raw = b"".join(b"x" * 4000 if token == BIG else bytes([token]) for token in tokens if token != EOS)
        return raw.decode("utf-8", "replace")

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return self.encode("".join(f"{each['role']}: {each['content']}\n" for each in messages))


Script = Callable[[Submit], list[int]]


def echo(submit: Submit) -> list[int]:
    """The prompt in capitals, then the end."""
    return [*bytes(token for token in submit.prompt if token < 256).upper(), EOS]


def says(text: str | bytes) -> Script:
    """Always the same answer."""
    raw = text.encode() if isinstance(text, str) else text
    return lambda _: [*raw, EOS]


class FakeServed:
    """A `RuntimeHandle`. `by_hand`: the test calls `turn`; else a thread does while there is work."""

    model = "fake"
    context_tokens = 20_000
    memory = MemoryFigures((USAGE,), unowned_bytes={"decode": 8}, free_bytes=1 << 30)
    info: Mapping[str, object] = {"weights_digest": "0", "kv_blocks": 8, "capabilities": ["arm"]}

    def __init__(
        self,
        script: Script = echo,
        *,
        by_hand: bool = False,
        submits_max: int = 64,
        evidence: EventSink | None = None,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or WallClock()
        on_fire = evidence.fire if evidence else lambda fire: None
        on_state = evidence.fault if evidence else lambda state: None
        faults = Faults(catalogue(), clock.now_ns, on_fire, on_state)
        self.env = Env(clock, 7, faults, Ledger())
        self.mailbox = Mailbox(submits_max)
        self.tokenizer = ByteTokenizer()
        self.status = EngineStats(kv=PoolCount(0, 0, 8, 8))
        self.drained = False
        self.stands: str | None = None
        self.fatal: RuntimeFailure | None = None
        self.seen: list[Mail] = []
        self.per_turn = 1
        self.held: dict[str, int] = {}
        """Blocks by owner, for the audit."""
        self._script = script
        self._by_hand = by_hand
        self._active: dict[str, tuple[Submit, list[int], int]] = {}
        self._sink: Sink | None = None
        self._closed = False

    def start(self, sink: Sink) -> None:
        self._sink = sink
        if not self._by_hand:
            threading.Thread(target=self._run, daemon=True).start()

    def generated(self, request_id: str) -> int | None:
        found = self._active.get(request_id)
        return None if found is None else found[2]

    def close(self) -> None:
        self._closed = True
        self.mailbox.wake()

    def mail(self, kind: type[Mail]) -> Mail:
        """By hand: the next mail of a kind, waited for. It is not acted on."""
        end_ns = time.monotonic_ns() + round(WAIT_S * 1e9)
        while time.monotonic_ns() < end_ns:
            self.mailbox.wait(WAIT_S)
            for each in self.mailbox.take():
                self.seen.append(each)
                if isinstance(each, Submit):
                    self._active[each.request_id] = (each, self._script(each), 0)
                if isinstance(each, kind):
                    return each
        raise AssertionError(f"no {kind.__name__} came; seen: {self.seen}")

    def turn(self) -> None:
        """Mail, then one step for all."""
        outputs: list[Output] = []
        for each in self.mailbox.take():
            self.seen.append(each)
            match each:
                case Submit():
                    self._active[each.request_id] = (each, self._script(each), 0)
                case Cancel(request_id, why):
                    outputs += self._end(request_id, End("cancelled", 499, "cancelled", why))
                case Finish(request_id):
                    outputs += self._end(request_id, End("ok", 200, finish="stop"))
                case Call(do):
                    do()
        for request_id in list(self._active):
            for _ in range(self.per_turn):
                if request_id in self._active:
                    outputs.append(self._next(request_id))
        self.send(outputs)

    def send(self, outputs: list[Output]) -> None:
        """To the server, with a fresh status."""
        kv = PoolCount(len(self._active), 0, 8 - len(self._active), 8)
        self.status = EngineStats(running=len(self._active), kv=kv, progress_ns=self.env.clock.now_ns(), preemptions=3)
        assert self._sink is not None
        self._sink.step(outputs)

    def end(self, request_id: str, end: End) -> None:
        """End one as told."""
        self.send(self._end(request_id, end))

    def die(self, *, silently: bool = False) -> None:
        """As the real engine: fatal first, then one end for each; `silently` leaves the ends to the server."""
        self.fatal = DeviceLost("the context is poisoned")
        ends = (
            []
            if silently
            else [self._end(each, End("fatal", 503, "engine_dead", "lost")) for each in list(self._active)]
        )
        self.send([output for outputs in ends for output in outputs])

    def measure_memory(self) -> MemoryFigures:
        return self.memory

    def audit(self, scope: str) -> Sequence[AuditRow]:
        now_ns = self.env.clock.now_ns()
        return [
            AuditRow(now_ns, scope, "kv_blocks", "live", owner, n, 0, "blocks", "0.1s admitted")
            for owner, n in self.held.items()
        ]

    def standstill(self, bound_ns: int) -> str | None:
        return self.stands

    def drain(self) -> None:
        self.drained = True

    def _next(self, request_id: str) -> Output:
        submit, script, at = self._active[request_id]
        token = script[at]
        self._active[request_id] = (submit, script, at + 1)
        wanted = submit.sampling.logprobs
        top = tuple(((token + i) % 256, -0.5 - i) for i in range(wanted or 0))
        sampled = Sampled(token, None if wanted is None else -0.5, top)
        if token in submit.stop_tokens or at + 1 == len(script):
            return self._end(request_id, End("ok", 200, finish="stop"), (sampled,))[0]
        if at + 1 >= submit.max_tokens:
            return self._end(request_id, End("ok", 200, finish="length"), (sampled,))[0]
        return Output(request_id, (sampled,))

    def _end(self, request_id: str, end: End, tokens: tuple[Sampled, ...] = ()) -> list[Output]:
        found = self._active.pop(request_id, None)
        if found is None:
            return []
        submit, _, at = found
        now_ns, came_ns = self.env.clock.now_ns(), submit.arrive_ns
        return [Output(request_id, tokens, Ended(end, came_ns, came_ns, now_ns, now_ns, len(submit.prompt), at, 0, 0))]

    def _run(self) -> None:
        while not self._closed and self.fatal is None:
            if not self._active:
                self.mailbox.wait(None)
            if not self._closed:
                self.turn()
