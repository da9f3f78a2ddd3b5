"""Fakes of the engine's ports: a clock that is set, a device that completes when told, a sink that keeps it all."""

import hashlib
from collections.abc import Sequence

from faults import Catalogue, Faults
from runtime.contract.points import POINTS as CONTRACT_POINTS
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.core.messages import Ended, Mailbox, Output, Submit
from runtime.core.ports import Ticket
from runtime.core.work import Claims, Copy, Sampled, Sampling, StepResult, Way, Work
from runtime.engine import Engine
from runtime.guard.watchdog import Bounds
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.points import POINTS as KV_POINTS
from runtime.memory.kv.swap import SwapSpace
from runtime.memory.kv.tags import TagPlane
from runtime.memory.spans.extents import Extents
from runtime.memory.spans.points import POINTS as SPAN_POINTS
from runtime.memory.spans.span_pool import SpanPool
from runtime.memory.spans.upstream import Reserve, Segments
from runtime.scheduling.points import POINTS as SCHED_POINTS
from runtime.scheduling.scheduler import Limits

BLOCK_TOKENS = 4
SECOND = 1_000_000_000
HOST_BYTES = 4096
"""A block on the host."""


class SetClock:
    """Time stands still until somebody moves it."""

    def __init__(self) -> None:
        self.t_ns = 0

    def now_ns(self) -> int:
        return self.t_ns

    def advance(self, seconds: float) -> None:
        self.t_ns += int(seconds * SECOND)


def next_token(history: Sequence[int]) -> int:
    """What the fake model says after `history`: keyed, so a lost, doubled or foreign token changes all that follow."""
    digest = hashlib.blake2b(repr(list(history)).encode(), digest_size=2).digest()
    return int.from_bytes(digest) % 250


class ManualDevice:
    """Keeps its own KV (token per slot), checks tags as a device must, and completes a ticket only when told to."""

    def __init__(self, env: Env, plane: TagPlane) -> None:
        self.launched: list[Ticket] = []
        self.refuse: list[Exception] = []
        """Raised by the next launches, first one first."""
        self.tokens_at: dict[int, int] = {}
        self.copies: list[Ticket] = []
        """In flight, oldest first."""
        self.host: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        """(segment, offset) of a block on the host -> its tokens and tags."""
        self._env = env
        self._plane = plane

    def launch(self, work: Work, reads: Claims, writes: Sequence[int]) -> Ticket:
        if self.refuse:
            raise self.refuse.pop(0)
        ticket = Ticket(len(self.launched), work, self._env.clock.now_ns())
        self.launched.append(ticket)
        self._reads = reads
        return ticket

    def complete(self, error: Exception | None = None, after_the_work: bool = False) -> None:
        """Do the work of the launch in flight and report it; with `error` nothing was done, or all of it in vain."""
        ticket = self.launched[-1]
        assert not ticket.done, "nothing is in flight"
        if error is None or after_the_work:
            ticket.result = self._compute(ticket.work)
        ticket.error = error
        ticket.done_ns = self._env.clock.now_ns()
        self._env.ledger.complete(ticket)

    def _compute(self, work: Work) -> StepResult:
        breaches = self._plane.verify(work, self._reads)
        self._plane.stamp(work)
        self.tokens_at.update(zip(work.slots.tolist(), work.token_ids.tolist(), strict=True))
        size = self._plane.block_tokens
        sampled: list[Sampled | None] = []
        for table, context, sampling in zip(work.block_tables, work.context_lens, work.sampling, strict=True):
            slots = [table[at // size] * size + at % size for at in range(int(context))]
            token = next_token([self.tokens_at.get(slot, -1) for slot in slots])
            sampled.append(None if sampling is None else Sampled(token))
        return StepResult(tuple(sampled), breaches)

    def copy(self, copy: Copy) -> Ticket:
        if self.refuse:
            raise self.refuse.pop(0)
        ticket = Ticket(len(self.launched) + 1000, copy, self._env.clock.now_ns())
        self.copies.append(ticket)
        return ticket

    def complete_copy(self, error: Exception | None = None) -> None:
        """Do the oldest copy in flight and report it; with `error` nothing was moved."""
        ticket = self.copies.pop(0)
        if error is None:
            self._move(ticket.work)
        ticket.error = error
        ticket.done_ns = self._env.clock.now_ns()
        self._env.ledger.complete(ticket)

    def _move(self, copy: Copy) -> None:
        size, rows = self._plane.block_tokens, self._plane.rows
        for at, block in enumerate(copy.blocks):
            place = (copy.segment, copy.offset + at * HOST_BYTES)
            slots = range(block * size, (block + 1) * size)
            if copy.way is Way.OUT:
                self.host[place] = ([self.tokens_at.get(slot, -1) for slot in slots], rows[block].tolist())
            else:
                tokens, rows[block] = self.host[place]
                self.tokens_at.update(zip(slots, tokens, strict=True))
        if copy.way is Way.IN:
            self._plane.resum(copy.blocks)

    def holds(self, ticket: Ticket) -> bool:
        return not ticket.done

    def close(self) -> None:
        pass


class Heard:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.tokens: dict[str, list[int]] = {}
        self.ended: dict[str, Ended] = {}

    def step(self, outputs: list[Output]) -> None:
        for output in outputs:
            self.tokens.setdefault(output.request_id, []).extend(one.token for one in output.tokens)
            if output.ended is not None:
                assert output.request_id not in self.ended, f"{output.request_id} ended twice"
                self.ended[output.request_id] = output.ended


class Bench:
    """An engine on fakes, stepped by hand."""

    def __init__(
        self,
        blocks: int = 16,
        limits: Limits | None = None,
        bounds: Bounds | None = None,
        prefix_cache: bool = False,
        host_blocks: int = 0,
    ) -> None:
        self.clock = SetClock()
        self.mailbox = Mailbox(submits_max=1000)
        catalogue = Catalogue((*CONTRACT_POINTS, *KV_POINTS, *SPAN_POINTS, *SCHED_POINTS))
        self.fires: list[str] = []
        self.faults = Faults(
            catalogue, self.clock.now_ns, lambda fire: self.fires.append(fire.fault), lambda state: None
        )
        self.env = Env(self.clock, 0, self.faults, Ledger(self.mailbox.wake))
        self.pool = PagedPool(self.env, blocks, BLOCK_TOKENS, prefix_cache=prefix_cache)
        self.device = ManualDevice(self.env, self.pool.plane)
        self.sink = Heard()
        segments = Segments(Reserve(host_blocks * HOST_BYTES), "io", max(1, host_blocks) * HOST_BYTES)
        self.host = SpanPool(self.env, "io", Extents(segments))
        swap = SwapSpace(self.env, self.pool, self.host, HOST_BYTES, self.device.copy) if host_blocks else None
        self.engine = Engine(
            self.env,
            self.device,
            self.pool,
            self.sink,
            self.mailbox,
            limits or Limits(token_budget=16, seqs_max=4, waiting_max=8, expected_output=0.0),
            bounds or Bounds(late_s=1.0, hang_fatal_s=60.0),
            swap,
        )
        self._submitted = 0

    def submit(
        self,
        prompt: Sequence[int],
        max_tokens: int = 4,
        deadline_s: float = 1000.0,
        group: str = "",
        priority: int = 0,
    ) -> str:
        name = f"r{self._submitted}"
        self._submitted += 1
        deadline_ns = self.clock.now_ns() + int(deadline_s * SECOND)
        offered = self.mailbox.offer(
            Submit(
                name,
                tuple(prompt),
                max_tokens,
                Sampling(),
                self.clock.now_ns(),
                deadline_ns,
                group=group,
                priority=priority,
            )
        )
        assert offered
        return name

    def turn(self, seconds: float = 0.01) -> None:
        """One step of the engine, and the copies and the launch that it made complete."""
        self.engine.step()
        if self.device.copies or self.engine.status.flight_ns is not None:
            self.clock.advance(seconds)
        while self.device.copies:
            self.device.complete_copy()
        if self.engine.status.flight_ns is not None:
            self.device.complete()

    def run(self, turns_max: int = 500) -> None:
        """Until nothing is open."""
        for _ in range(turns_max):
            self.turn()
            status = self.engine.status
            if not (status.running or status.waiting) and status.flight_ns is None:
                return
        raise AssertionError(f"still open after {turns_max} turns: {self.engine.status}")

    def leftovers(self) -> list[str]:
        """What a drain audit objects to."""
        return [
            f"{row.name} {row.owner} {row.value} != {row.expected}"
            for row in self.engine.audit("drain")
            if row.expected is not None and row.value != row.expected
        ]


def expected_tokens(prompt: Sequence[int], n: int) -> list[int]:
    """What a request must produce, alone or in any company."""
    history = list(prompt)
    for _ in range(n):
        history.append(next_token(history))
    return history[len(prompt) :]
