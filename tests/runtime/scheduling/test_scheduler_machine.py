"""The scheduler on its own against a plain model: what each request has asked and got, and what each KV slot holds.

The model plays engine and device: it lands a plan or fails it, writes into each slot the whole past of its token, as K
and V of a deep layer hold it, and reads each request's past back through its blocks. So a block that two hold, that was
shared or given on too early shows, and every answer must be the one that the request would get alone.
"""

from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import initialize, invariant, precondition, rule

from faults import DisabledFaults
from runtime.core.env import Env
from runtime.core.errors import InvalidRequest, MailboxFull, OutOfBlocks, RuntimeFailure
from runtime.core.ledger import Ledger
from runtime.core.messages import End, Submit
from runtime.core.owner import Owner
from runtime.core.ports import Ticket
from runtime.core.work import Sampled, Sampling
from runtime.device.hash_model import expected
from runtime.memory.kv.paged import PagedPool
from runtime.scheduling.preemption import Mode
from runtime.scheduling.request import Request
from runtime.scheduling.scheduler import Limits, Scheduler
from tests.runtime.fakes import SECOND, SetClock
from tests.steps import CountedMachine, machine_settings

SIZE, BUDGET, QUEUE, AGEING_S = 4, 9, 5, 1.0
STEMS = ([1, 2, 3, 4] * 5, [1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9], [5] * 16)
prompts = st.builds(
    lambda stem, n, tail: (stem[:n] + tail)[:18],
    st.sampled_from(STEMS),
    st.sampled_from([1, 2, 4, 5, 8, 9, 12, 16]),
    st.lists(st.integers(0, 9), max_size=3),
)
priorities = st.sampled_from([0, 0, 0, 1])


@dataclass
class Asked:
    """A request as the model knows it."""

    prompt: list[int]
    answer: list[int]
    rank: tuple[int, int]
    """Smaller goes first: when it came, less a head start for its priority; then the order of coming."""
    request: Request
    got: list[int] = field(default_factory=list)
    ended: str | None = None

    @property
    def tokens(self) -> list[int]:
        return self.prompt + self.got


@dataclass(frozen=True)
class Given:
    """A row as it was when it was launched; its request may have ended or begun anew when it lands."""

    name: str
    start: int
    end: int
    table: tuple[int, ...]


class ShortPool(PagedPool):
    """Has no blocks for the next `short` that ask, but for `spared` ones."""

    short = 0
    spared: frozenset[str] = frozenset()
    failed = False
    """Since it was set to False."""

    def take(self, owner: Owner, n: int) -> tuple[list[int], list[int]]:
        if self.short and owner.request not in self.spared:
            self.short, self.failed = self.short - 1, True
            raise OutOfBlocks("drawn")
        return super().take(owner, n)


def blocks_of(tokens: int) -> int:
    return -(-tokens // SIZE)


class SchedulerMachine(CountedMachine):
    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, Asked] = {}
        self.flight: tuple[Ticket, list[Given]] | None = None
        self.kv: dict[int, tuple[int, ...]] = {}
        self.left: set[int] = set()
        """Blocks that were held when their request ended under the launch in flight."""
        self.mode = Mode.RECOMPUTE
        self.only_newcomers_short = False
        self.build(True, 0.0, 3, 7)

    def build(self, cache: bool, expected_output: float, seats: int, blocks: int) -> None:
        self.seats, self.blocks = seats, blocks
        self.clock = SetClock()
        self.env = Env(self.clock, 0, DisabledFaults(), Ledger())
        self.pool = ShortPool(self.env, blocks, SIZE, prefix_cache=cache)
        limits = Limits(BUDGET, seats, QUEUE, expected_output, self.mode, AGEING_S, quantum=2)
        self.scheduler = Scheduler(self.env, self.pool, limits, self.refuse)

    @initialize(
        cache=st.sampled_from([True, True, False]),
        expected_output=st.sampled_from([0.0, 0.0, 1.0]),
        seats=st.sampled_from([2, 3]),
        blocks=st.sampled_from([7, 7, 16]),
        mode=st.sampled_from([Mode.RECOMPUTE, Mode.AUTO, Mode.FAIL]),
    )
    def choose(self, cache: bool, expected_output: float, seats: int, blocks: int, mode: Mode) -> None:
        self.mode = mode
        self.build(cache, expected_output, seats, blocks)

    @property
    def open(self) -> dict[str, Asked]:
        return {name: asked for name, asked in self.asked.items() if asked.ended is None}

    # -- rules --------------------------------------------------------------------------------------------------------

    @rule(wishes=st.lists(st.tuples(prompts, st.integers(1, 12), priorities), min_size=1, max_size=5))
    def submit_some(self, wishes: list[tuple[list[int], int, int]]) -> None:
        """At once, so that the queue is seldom empty."""
        for wish in wishes:
            self.submit(*wish)

    def submit(self, prompt: list[int], max_tokens: int, priority: int) -> None:
        name, now_ns, n = f"r{len(self.asked)}", self.clock.now_ns(), len(self.asked)
        deadline_ns = now_ns + 1000 * SECOND
        submit = Submit(name, tuple(prompt), max_tokens, Sampling(), now_ns, deadline_ns, priority=priority)
        if blocks_of(len(prompt) + max_tokens) > self.blocks:
            with pytest.raises(InvalidRequest):
                self.scheduler.admit(submit)
        elif len(self.open) - len(self.scheduler.running) >= QUEUE:
            with pytest.raises(MailboxFull):
                self.scheduler.admit(submit)
        else:
            answer = [one.token for one in expected(prompt, max_tokens, seed=3)]
            rank = (now_ns - round(priority * AGEING_S * SECOND), n)
            self.asked[name] = Asked(prompt, answer, rank, self.scheduler.admit(submit))

    @precondition(lambda self: self.flight is None)
    @rule()
    def plan(self) -> None:
        ran, self.pool.failed = frozenset(request.id for request in self.scheduler.running), False
        self.pool.spared = ran if self.only_newcomers_short else frozenset()
        batches = self.scheduler.plan()
        rows = [
            Given(one.id, one.computed, one.computed + row.tokens, tuple(one.blocks))
            for batch in batches
            for row in batch.rows
            for one in [row.request]
        ]
        if not rows:
            assert not self.open or self.pool.failed, "somebody waits for nobody"
            return
        names = [row.name for row in rows]
        assert len(set(names)) == len(names) <= self.seats, "a request has two rows, or there are more rows than seats"
        assert set(names) <= self.open.keys()
        assert sum(row.end - row.start for row in rows) <= BUDGET
        for row in rows:
            self.look_at(row)
        begun = [self.asked[name].rank for name in names if name not in ran]
        waiting = [self.asked[request.id].rank for request in self.scheduler.waiting]
        assert not begun or not waiting or max(begun) < min(waiting), "somebody was overtaken"
        self.flight = Ticket(len(names), None, 0), rows  # type: ignore[arg-type]

    def look_at(self, row: Given) -> None:
        """What it computes, where that ends, and that there is room for it."""
        left = len(self.asked[row.name].tokens) - row.end
        assert row.start < row.end and left >= 0
        assert row.end % SIZE == 0 or left == 0 or row.end // SIZE == row.start // SIZE, "it ends inside of a block"
        assert len(row.table) >= blocks_of(row.end), "there is no room for its tokens"
        self.read(row, row.start)

    def read(self, row: Given, end: int) -> None:
        """Its past, through its own blocks."""
        past = [self.kv.get(row.table[at // SIZE] * SIZE + at % SIZE) for at in range(end)]
        written = [tuple(self.asked[row.name].tokens[: at + 1]) for at in range(end)]
        assert past == written, f"{row.name} reads what it did not write"

    @precondition(lambda self: self.flight is not None)
    @rule(fails=st.sampled_from([False, False, False, True]))
    def land(self, fails: bool) -> None:
        """Also for those that have ended meanwhile: their blocks wait for it. One that fails has written nothing."""
        assert self.flight is not None
        (ticket, rows), self.flight = self.flight, None
        written = [] if fails else rows
        for row in written:
            for at in range(row.start, row.end):
                self.kv[row.table[at // SIZE] * SIZE + at % SIZE] = tuple(self.asked[row.name].tokens[: at + 1])
        ticket.done_ns = 1
        self.env.ledger.complete(ticket)
        self.env.ledger.settle()
        self.left = set()
        for row in written:
            if self.asked[row.name].ended is None:
                self.advance(row)

    def advance(self, row: Given) -> None:
        asked, request = self.asked[row.name], self.asked[row.name].request
        self.read(row, row.end)
        sampled = asked.answer[len(asked.got)] if row.end == len(asked.tokens) else None
        request.advance(row.end - row.start, None if sampled is None else Sampled(sampled), self.clock.now_ns())
        if sampled is not None:
            asked.got.append(sampled)
        self.scheduler.publish(request)
        assert request.tokens == asked.tokens
        assert request.finish_reason() == ("length" if asked.got == asked.answer else None)
        if asked.got == asked.answer:
            self.end(row.name, "ok")

    @precondition(lambda self: self.open)
    @rule(which=st.integers(0, 20))
    def cancel(self, which: int) -> None:
        self.end(sorted(self.open)[which % len(self.open)], "cancelled")

    @rule(times=st.integers(1, 3), newcomers=st.booleans())
    def no_blocks_for_some(self, times: int, newcomers: bool) -> None:
        self.pool.short, self.only_newcomers_short = times, newcomers

    @rule(seconds=st.sampled_from([0.1, 1.5]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @precondition(lambda self: self.open)
    @rule(turns=st.integers(1, 6))
    def go_on(self, turns: int) -> None:
        for _ in range(turns):
            if self.flight is None:
                self.plan()
            if self.flight is not None:
                self.land(fails=False)

    def refuse(self, request: Request, failure: RuntimeFailure) -> None:
        assert self.mode is Mode.FAIL or self.pool.failed, f"{request.id} is refused: {failure}"
        self.end(request.id, "refused")

    def end(self, name: str, how: str) -> None:
        asked = self.asked[name]
        assert asked.ended is None, f"{name} ends twice"
        asked.ended = how
        if self.flight is not None:
            self.left |= set(asked.request.blocks)
        self.scheduler.remove(asked.request, self.flight[0] if self.flight else None)
        asked.request.ended(End("ok", 200), self.clock.now_ns())

    # -- what must hold at all times ----------------------------------------------------------------------------------

    @invariant()
    def each_is_in_one_place_and_nobody_is_lost(self) -> None:
        queues = [request.id for request in (*self.scheduler.waiting, *self.scheduler.running)]
        assert sorted(queues) == sorted(self.open)
        assert len(self.scheduler.running) <= self.seats
        assert len(self.scheduler.waiting) - QUEUE <= self.seats, "the queue holds at most those, and who was preempted"

    @invariant()
    def who_does_not_run_holds_nothing_and_who_runs_what_it_says(self) -> None:
        running = {request.id: request for request in self.scheduler.running}
        for name in self.asked:
            held = self.env.ledger.held("kv", name)
            assert held == (running[name].blocks if name in running else []), f"{name} holds {held}"

    @invariant()
    def blocks_add_up(self) -> None:
        count, running = self.pool.count(), self.scheduler.running
        assert count.conserved
        live = {block for request in running for block in request.blocks}
        assert count.live == len(live)
        assert count.limbo == len(self.left - live), "a launch in flight reads blocks that are free"

    def teardown(self) -> None:
        """Who is left gets its answer, in as many turns as there are tokens at most, were all computed three times."""
        self.pool.short = 0
        turns = 3 * sum(len(asked.prompt) + len(asked.answer) for asked in self.open.values()) + 2
        for _ in range(turns):
            if self.open or self.flight:
                self.go_on(1)
        assert not self.open, "somebody has no end"
        assert all(asked.got == asked.answer for asked in self.asked.values() if asked.ended == "ok")
        assert (self.pool.count().live, self.pool.count().limbo) == (0, 0)


SchedulerMachine.TestCase.settings = machine_settings(runs=80, steps=40)
TestSchedulerMachine = SchedulerMachine.TestCase
