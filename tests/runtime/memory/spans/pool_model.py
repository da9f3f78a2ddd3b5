"""A pool against a plain model: a dict of what each span should contain, and memory that is really written.

Each segment is an array. A span is filled with its own value when it is handed out, launches read theirs when they
complete, copies of a defrag are made when they complete, and every place that goes back is overwritten at once. So
bytes that are given twice, given back too early or lost in a move show as a wrong value.
"""

from dataclasses import dataclass, field

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis.stateful import invariant, precondition, rule

from faults import DisabledFaults
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.core.ports import Ticket
from runtime.memory.spans.failures import DoubleFree, LifetimeEscape, OutOfMemory, StaleSpan, UnknownSpan
from runtime.memory.spans.placement import Place, Placement
from runtime.memory.spans.span import AllocRequest, Lifetime, ResetScope, Span
from runtime.memory.spans.span_pool import SpanPool
from runtime.memory.spans.upstream import Segments
from tests.runtime.fakes import SetClock
from tests.runtime.memory.spans.bench import check
from tests.steps import CountedMachine

GARBAGE = 0
"""No span has this value."""


class Tensors:
    """An upstream with real bytes behind it."""

    def __init__(self, left_bytes: int) -> None:
        self.left_bytes = left_bytes
        self.of: dict[int, np.ndarray] = {}

    def reserve(self, pool: str, segment: int, size_bytes: int) -> bool:
        if size_bytes > self.left_bytes:
            return False
        assert segment not in self.of
        self.left_bytes -= size_bytes
        self.of[segment] = np.zeros(size_bytes, np.uint8)
        return True

    def give_back(self, pool: str, segment: int, size_bytes: int) -> None:
        assert len(self.of.pop(segment)) == size_bytes
        self.left_bytes += size_bytes

    def view(self, span: Span) -> np.ndarray:
        whole = self.of[span.segment][span.offset : span.offset + span.bytes]
        assert len(whole) == span.bytes, f"{span} ends outside of its segment"
        return whole


@dataclass
class Launch:
    ticket: Ticket
    reads: list[tuple[Span, int]] = field(default_factory=list)
    copies: list[tuple[Span, Span]] = field(default_factory=list)


@dataclass
class Kept:
    """What the model knows of a live span."""

    span: Span
    request: AllocRequest
    value: int
    last: Ticket | None = None
    """The last launch that touches it."""


class PoolMachine(CountedMachine):
    """Subclasses say which placement, and (in `must_fit`) when a request has to succeed."""

    total_bytes, segment_bytes = 200_000, 65_536
    sizes = st.one_of(st.integers(1, 300), st.integers(1, 40_000), st.sampled_from([256, 8192, 16_384, 32_768, 65_536]))
    """Whole parts of a segment too: what just fits is where one byte too many or too few shows."""
    longest = Lifetime.SESSION

    def placement(self, segments: Segments) -> Placement:
        raise NotImplementedError

    def must_fit(self, request: AllocRequest) -> bool:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.tensors = Tensors(self.total_bytes)
        self.env = Env(SetClock(), 0, DisabledFaults(), Ledger())
        self.segments = Segments(self.tensors, "p", self.segment_bytes)
        self.pool = SpanPool(self.env, "p", self.placement(self.segments))
        self.pool.on_return.append(self.returned)
        self.kept: list[Kept] = []
        self.ended: list[Span] = []
        self.launched: list[Launch] = []
        self.limbo: list[tuple[Span, Ticket]] = []
        self.count = 0

    def returned(self, place: Place) -> None:
        self.tensors.of[place.segment][place.offset : place.end] = GARBAGE

    @rule(
        data=st.data(), wishes=st.lists(st.tuples(sizes, st.sampled_from([1, 64, 256, 1024])), min_size=1, max_size=6)
    )
    def alloc(self, data: st.DataObject, wishes: list[tuple[int, int]]) -> None:
        lifetimes = st.sampled_from([one for one in Lifetime if one <= self.longest])
        for size_bytes, alignment in wishes:
            lifetime, session, group = data.draw(st.tuples(lifetimes, st.sampled_from("ab"), st.sampled_from("xy")))
            self._alloc(AllocRequest(size_bytes, alignment, lifetime=lifetime, session=session, group=group))

    @precondition(lambda self: self.longest < Lifetime.GLOBAL)
    @rule(session=st.sampled_from("ab"))
    def alloc_what_would_escape(self, session: str) -> None:
        for lifetime in Lifetime:
            if lifetime > self.longest:
                with pytest.raises(LifetimeEscape):
                    self.pool.alloc(AllocRequest(1, lifetime=lifetime, session=session))

    def _alloc(self, request: AllocRequest) -> None:
        must_fit = self.must_fit(request)
        before = self.pool.usage()
        refused = None
        try:
            span = self.pool.alloc(request)
        except OutOfMemory as error:
            refused = error
        if refused is not None:
            assert not must_fit, f"{refused}, but there is room"
            after = self.pool.usage()
            assert (after.held_bytes, after.limbo_bytes, after.live) == (
                before.held_bytes,
                before.limbo_bytes,
                before.live,
            )
            return
        assert span.offset % request.alignment == 0
        assert span.bytes == request.bytes
        self.count += 1
        self.kept.append(Kept(span, request, self.count % 255 + 1))
        self.tensors.view(span)[:] = self.kept[-1].value

    @rule(data=st.data())
    def launch(self, data: st.DataObject) -> None:
        touched = data.draw(st.lists(st.sampled_from(self.kept), max_size=3, unique_by=id)) if self.kept else []
        launch = self._launch()
        for kept in touched:
            if kept.last is None or kept.last.done or not self._moving(kept.span):
                launch.reads.append((kept.span, kept.value))
            kept.last = launch.ticket

    @precondition(lambda self: self.launched)
    @rule()
    def complete(self) -> None:
        """In launch order, as on one stream."""
        launch = self.launched.pop(0)
        for span, value in launch.reads:
            assert (self.tensors.view(span) == value).all(), f"{span} was reused under launch {launch.ticket.seq}"
        for old, new in launch.copies:
            self.tensors.view(new)[:] = self.tensors.view(old).copy()
        launch.ticket.done_ns = 1
        self.env.ledger.complete(launch.ticket)
        self.limbo = [(span, ticket) for span, ticket in self.limbo if not ticket.done]
        self.env.ledger.settle()

    @precondition(lambda self: self.kept)
    @rule(data=st.data(), n=st.integers(1, 4))
    def free(self, data: st.DataObject, n: int) -> None:
        for _ in range(min(n, len(self.kept))):
            kept = self.kept.pop(data.draw(st.integers(0, len(self.kept) - 1)))
            self._look(kept)
            self.pool.free(kept.span, kept.last)
            self._ended(kept, kept.last)

    @rule(
        lifetime=st.sampled_from(Lifetime),
        session=st.sampled_from(["a", "b", None]),
        group=st.sampled_from(["x", None]),
    )
    def reset(self, lifetime: Lifetime, session: str | None, group: str | None) -> None:
        last = self.launched[-1].ticket if self.launched else None
        gone = [
            kept
            for kept in self.kept
            if kept.request.lifetime <= lifetime
            and session in (None, kept.request.session)
            and group in (None, kept.request.group)
        ]
        assert self.pool.reset(ResetScope(lifetime, session, group), last) == sum(kept.span.bytes for kept in gone)
        for kept in gone:
            self.kept.remove(kept)
            self._ended(kept, last)

    @rule()
    def release_free(self) -> None:
        before_bytes = sum(map(len, self.tensors.of.values()))
        assert self.pool.release_free() == before_bytes - sum(map(len, self.tensors.of.values()))
        taken = {kept.span.segment for kept in self.kept} | {span.segment for span, _ in self.limbo}
        assert set(self.tensors.of) == taken, "a segment that holds nothing was kept"

    @rule(overlap=st.booleans(), at_once=st.booleans(), bytes_max=st.sampled_from([None, 5000]))
    def defrag(self, overlap: bool, at_once: bool, bytes_max: int | None) -> None:
        barrier = self.launched[-1].ticket if self.launched else None
        holders = {kept.span: kept for kept in self.kept}

        def move(old: Span, new: Span, size_bytes: int) -> Ticket | None:
            kept = holders[new] = holders.pop(old)  # one span may move twice: into a hole, and then over
            assert size_bytes == old.bytes == new.bytes == kept.request.bytes
            assert new.offset % kept.request.alignment == 0
            kept.span = new
            self.ended.append(old)
            if at_once and not self._moving(old):
                self.tensors.view(new)[:] = self.tensors.view(old).copy()
                if barrier is not None:
                    self.limbo.append((old, barrier))
                return None
            launch = self._launch()
            launch.copies.append((old, new))
            kept.last = launch.ticket
            self.limbo.append((old, launch.ticket))
            return launch.ticket

        moved = self.pool.defrag(move, barrier, bytes_max=bytes_max, overlap=overlap)
        assert bytes_max is None or moved <= bytes_max
        if overlap and at_once and barrier is None and bytes_max is None:
            self.is_compact()

    def is_compact(self) -> None:
        """After a whole slide with nothing in flight."""

    @precondition(lambda self: self.ended)
    @rule(data=st.data())
    def use_what_has_ended(self, data: st.DataObject) -> None:
        span = data.draw(st.sampled_from(self.ended))
        with pytest.raises(DoubleFree):
            self.pool.free(span, None)
        with pytest.raises(StaleSpan):
            self.pool.find(span)

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def use_what_was_never_handed_out(self, data: st.DataObject) -> None:
        span = data.draw(st.sampled_from(self.kept)).span
        for forged in (
            span._replace(offset=span.offset + 1),
            span._replace(bytes=span.bytes + 1),
            span._replace(pool="q"),
            span._replace(generation=10**6),
        ):
            with pytest.raises(UnknownSpan):
                self.pool.free(forged, None)
            with pytest.raises(UnknownSpan):
                self.pool.find(forged)

    @invariant()
    def adds_up(self) -> None:
        check(self.pool)
        usage = self.pool.usage()
        assert usage.total_bytes == sum(map(len, self.tensors.of.values()))
        assert (usage.live, usage.asked_bytes) == (len(self.kept), sum(kept.span.bytes for kept in self.kept))
        assert usage.held_bytes >= usage.asked_bytes
        assert (usage.limbo_bytes > 0) == bool(self.limbo)
        assert usage.largest_free_bytes <= usage.free_bytes
        assert self.env.ledger.live("p") == len(self.kept)
        assert [span for span, _ in self.pool.live()] == sorted((one.span for one in self.kept), key=lambda s: s[4])

    @invariant()
    def every_span_is_as_it_was_written(self) -> None:
        for kept in self.kept:
            self._look(kept)

    def teardown(self) -> None:
        while self.launched:
            self.complete()
        for kept in self.kept:
            self._look(kept)
        self.pool.reset(ResetScope(Lifetime.GLOBAL), None)
        usage = self.pool.usage()
        assert (usage.live, usage.held_bytes, usage.limbo_bytes, usage.pinned_bytes) == (0, 0, 0, self.slack())
        self.pool.release_free()
        assert self.tensors.left_bytes == self.total_bytes, "something was not given back"
        assert not list(self.env.ledger.outstanding())

    def slack(self) -> int:
        """Pinned bytes of a pool that holds nothing."""
        return 0

    def taken(self, segment: int) -> list[tuple[int, int]]:
        """(offset, end) of what no one else may have, from the model alone."""
        spans = [kept.span for kept in self.kept] + [span for span, _ in self.limbo]
        return sorted((span.offset, span.offset + span.bytes) for span in spans if span.segment == segment)

    def can_grow(self, size_bytes: int) -> bool:
        return self.tensors.left_bytes >= -(-size_bytes // 4096) * 4096

    def _launch(self) -> Launch:
        seq = self.launched[-1].ticket.seq + 1 if self.launched else 0
        self.launched.append(Launch(Ticket(seq, None, 0)))  # type: ignore[arg-type]
        return self.launched[-1]

    def _moving(self, span: Span) -> bool:
        return any(new == span for launch in self.launched for _, new in launch.copies)

    def _look(self, kept: Kept) -> None:
        if not self._moving(kept.span):
            assert (self.tensors.view(kept.span) == kept.value).all(), f"{kept.span} was overwritten"

    def _ended(self, kept: Kept, after: Ticket | None) -> None:
        self.ended.append(kept.span)
        if after is not None and not after.done:
            self.limbo.append((kept.span, after))
