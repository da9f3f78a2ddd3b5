"""One contract for all pools: what the one who asks for bytes may rely on, wherever they come from.

A new pool adds itself to WORLDS. Its world has room for at least four spans of `size_bytes`, and names the sizes that
it can serve.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from faults import Faults
from runtime.core.env import Env
from runtime.core.errors import RuntimeFailure
from runtime.core.ledger import Ledger
from runtime.core.ports import Ticket
from runtime.memory.spans.adaptors.fault import Fault
from runtime.memory.spans.adaptors.limit import Limit
from runtime.memory.spans.adaptors.retry import Retry, ladder
from runtime.memory.spans.adaptors.stats import Stats
from runtime.memory.spans.adaptors.track import Track
from runtime.memory.spans.arena import Arena
from runtime.memory.spans.classes import Classes
from runtime.memory.spans.extents import Extents
from runtime.memory.spans.failures import DoubleFree, OutOfMemory, StaleSpan, UnknownSpan
from runtime.memory.spans.placement import Place, Placement
from runtime.memory.spans.pool import Pool
from runtime.memory.spans.ring import Ring
from runtime.memory.spans.span import AllocRequest, Lifetime, PoolKind, ResetScope, Span
from runtime.memory.spans.span_pool import SpanPool
from runtime.memory.spans.upstream import Reserve, Segments
from runtime.points import catalogue
from tests.runtime.fakes import SetClock
from tests.runtime.memory.spans.bench import check

KIB = 1024


@dataclass
class World:
    spans: SpanPool
    env: Env
    reserve: Reserve
    tickets: list[Ticket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pool: Pool = self.spans

    def ask(self, size_bytes: int = 1000, **words: object) -> AllocRequest:
        return AllocRequest(size_bytes, **{"lifetime": Lifetime.OP, "session": "s", "group": "g", **words})  # type: ignore[arg-type]

    def fill(self) -> list[Span]:
        spans = []
        while True:
            try:
                spans.append(self.pool.alloc(self.ask()))
            except OutOfMemory:
                return spans

    def launch(self) -> Ticket:
        self.tickets.append(Ticket(len(self.tickets), None, 0))  # type: ignore[arg-type]
        return self.tickets[-1]

    def complete(self, ticket: Ticket) -> None:
        ticket.done_ns = 1
        self.env.ledger.complete(ticket)
        self.env.ledger.settle()


def make_env() -> Env:
    clock = SetClock()
    faults = Faults(catalogue(), clock.now_ns, lambda fire: None, lambda state: None)
    return Env(clock, 0, faults, Ledger())


def spans_over(make: Callable[[Segments], Placement], alignment: int = 1) -> World:
    env, reserve = make_env(), Reserve(16 * KIB)
    placement = make(Segments(reserve, "p", 8 * KIB))
    placement.longest = Lifetime.GLOBAL
    return World(SpanPool(env, "p", placement, alignment), env, reserve)


def all_adaptors() -> World:
    world = spans_over(lambda segments: Classes(Extents(segments)))
    inner = Fault(Track(world.pool, world.env), world.env)
    retry = Retry(Limit(inner, 16 * KIB), world.env, ladder(world.env, world.pool, move=lambda old, new, n: None))
    world.pool = Stats(retry, world.env.clock)
    return world


WORLDS: dict[str, Callable[[], World]] = {
    "arena": lambda: spans_over(Arena),
    "ring": lambda: spans_over(Ring),
    "extents": lambda: spans_over(Extents),
    "classes": lambda: spans_over(lambda segments: Classes(Extents(segments))),
    "all adaptors": all_adaptors,
}


@pytest.fixture(params=WORLDS.values(), ids=WORLDS.keys())
def world(request: pytest.FixtureRequest) -> World:
    made: World = request.param()
    return made


def test_a_span_is_what_was_asked_and_overlaps_no_other(world: World) -> None:
    spans = world.fill()
    assert len(spans) >= 4
    assert all(span.pool == world.pool.name == "p" and span.bytes == 1000 and span.offset % 64 == 0 for span in spans)
    ranges = sorted((span.segment, span.offset, span.offset + span.bytes) for span in spans)
    assert all(one[0] < two[0] or one[2] <= two[1] for one, two in pairwise(ranges))
    check(world.pool)


def test_no_room_says_so_with_figures_and_takes_nothing(world: World) -> None:
    world.fill()
    before = world.pool.usage()
    with pytest.raises(OutOfMemory, match="p") as caught:
        world.pool.alloc(world.ask())
    assert caught.value.asked == 1000
    assert caught.value.http == 429
    after = world.pool.usage()
    assert (after.held_bytes, after.free_bytes, after.live) == (before.held_bytes, before.free_bytes, before.live)


def test_what_is_freed_with_no_launch_in_flight_can_be_had_again_at_once(world: World) -> None:
    spans = world.fill()
    done = world.launch()
    world.complete(done)
    for span, after in zip(spans, [None, done] * len(spans), strict=False):
        world.pool.free(span, after)
    assert len(world.fill()) == len(spans)


def test_nothing_that_was_freed_is_reused_before_its_launch_is_done(world: World) -> None:
    spans = world.fill()
    first, second = world.launch(), world.launch()
    back: list[Place] = []
    world.spans.on_return.append(back.append)
    for span in spans:
        world.pool.free(span, second)
    with pytest.raises(OutOfMemory):
        world.pool.alloc(world.ask())
    world.complete(first)
    assert (back, world.pool.usage().limbo_bytes) == ([], world.pool.taken_bytes)
    assert world.fill() == []
    world.complete(second)
    assert len(back) == len(spans)
    assert world.pool.taken_bytes == 0
    assert len(world.fill()) == len(spans)


def test_nothing_that_was_reset_is_reused_before_its_launch_is_done(world: World) -> None:
    spans = world.fill()
    ticket = world.launch()
    assert world.pool.reset(ResetScope(Lifetime.GLOBAL), ticket) == 1000 * len(spans)
    assert world.pool.usage().live == 0
    with pytest.raises(OutOfMemory):
        world.pool.alloc(world.ask())
    world.complete(ticket)
    assert len(world.fill()) == len(spans)


@pytest.mark.parametrize(
    ("scope", "stays"),
    [
        (ResetScope(Lifetime.OP), "graph session global"),
        (ResetScope(Lifetime.GRAPH), "session global"),
        (ResetScope(Lifetime.SESSION, session="s"), "global"),
        (ResetScope(Lifetime.GLOBAL, session="other"), "op graph session global"),
        (ResetScope(Lifetime.GLOBAL, group="g"), ""),
        (ResetScope(Lifetime.GLOBAL, group="other"), "op graph session global"),
    ],
)
def test_a_reset_ends_what_its_scope_covers_and_no_more(world: World, scope: ResetScope, stays: str) -> None:
    spans = {lifetime: world.pool.alloc(world.ask(lifetime=lifetime)) for lifetime in Lifetime}
    world.pool.reset(scope, None)
    live = {span for span, _ in world.pool.live()}
    assert {lifetime.name.lower() for lifetime, span in spans.items() if span in live} == set(stays.split())


def test_a_second_free_is_refused_by_type_whatever_ended_the_span(world: World) -> None:
    freed, reset = (world.pool.alloc(world.ask(session=name)) for name in ("s", "r"))
    world.pool.free(freed, None)
    world.pool.reset(ResetScope(Lifetime.GLOBAL, session="r"), world.launch())
    again = world.pool.alloc(world.ask())
    for span in (freed, reset):
        with pytest.raises(DoubleFree, match="before"):
            world.pool.free(span, None)
        with pytest.raises(StaleSpan):
            world.pool.find(span)
    assert [span for span, _ in world.pool.live()] == [again]


def test_a_handle_that_was_never_given_is_refused_by_type(world: World) -> None:
    span = world.pool.alloc(world.ask())
    for forged in (
        span._replace(pool="q"),
        span._replace(bytes=2000),
        span._replace(offset=span.offset + 64),
        span._replace(generation=span.generation + 1),
        span._replace(generation=0),
    ):
        with pytest.raises(UnknownSpan):
            world.pool.free(forged, None)
        with pytest.raises(UnknownSpan):
            world.pool.find(forged)
    assert world.pool.find(span) == world.ask()


def test_misuse_asks_for_a_clean_up_and_is_our_own_fault(world: World) -> None:
    span = world.pool.alloc(world.ask())
    world.pool.free(span, None)
    with pytest.raises(RuntimeFailure) as caught:
        world.pool.free(span, None)
    assert (caught.value.severity, caught.value.http, caught.value.code) == ("after_cleanup", 500, "span_misuse")


def test_the_ledger_knows_whose_each_span_is(world: World) -> None:
    one = world.pool.alloc(world.ask(session="one"))
    world.pool.alloc(world.ask(session="", group="team"))
    world.pool.alloc(world.ask(session="", group=""))
    assert list(world.env.ledger.outstanding()) == [("p", "one", 1), ("p", "team", 1), ("p", "activation.op", 1)]
    world.pool.free(one, None)
    assert [owner for _, owner, _ in world.env.ledger.outstanding()] == ["team", "activation.op"]


def test_limbo_is_counted_by_bytes_and_named_in_the_ledger(world: World) -> None:
    span, ticket = world.pool.alloc(world.ask()), world.launch()
    held_bytes = world.pool.usage().held_bytes
    world.pool.free(span, ticket)
    assert (world.pool.usage().held_bytes, world.pool.usage().limbo_bytes) == (0, held_bytes)
    assert [(entry.owner, entry.pool) for entry in world.env.ledger.limbo()] == [("s", "p")]
    check(world.pool)


def test_an_empty_pool_gives_every_byte_back_to_the_device(world: World) -> None:
    spans = world.fill()
    total_bytes = world.pool.usage().total_bytes
    kept = world.pool.release_free()
    assert kept == 0
    for span in spans:
        world.pool.free(span, None)
    released = world.pool.release_free()
    assert (released, world.reserve.left_bytes) == (total_bytes, world.reserve.total_bytes)
    assert len(world.fill()) == len(spans)


def test_a_segment_with_a_span_in_limbo_is_kept(world: World) -> None:
    ticket = world.launch()
    world.pool.free(world.pool.alloc(world.ask()), ticket)
    left_bytes = world.reserve.left_bytes
    assert world.pool.release_free() == 0
    world.complete(ticket)
    world.pool.release_free()
    assert world.reserve.left_bytes > left_bytes


@pytest.mark.parametrize("placement", [Arena, Ring, Extents, lambda segments: Classes(Extents(segments))])
def test_alignment_is_the_larger_of_what_was_asked_and_what_the_pool_wants(
    placement: Callable[[Segments], Placement],
) -> None:
    world = spans_over(placement, alignment=512)
    world.pool.alloc(world.ask(100, alignment=64))
    assert world.pool.alloc(world.ask(100, alignment=64)).offset % 512 == 0
    assert world.pool.alloc(world.ask(100, alignment=1024)).offset % 1024 == 0
    with pytest.raises(ValueError, match="alignment 96"):
        spans_over(placement, alignment=96)


def test_defrag_moves_handles_or_nothing_and_loses_no_byte(world: World) -> None:
    spans = world.fill()
    for span in spans[::2]:
        world.pool.free(span, None)
    now = {span: span for span in spans[1::2]}

    def move(old: Span, new: Span, size_bytes: int) -> None:
        assert size_bytes == old.bytes == new.bytes
        now[next(first for first, last in now.items() if last == old)] = new

    before = world.pool.usage()
    world.pool.defrag(move, None, overlap=True)
    after = world.pool.usage()
    assert {span for span, _ in world.pool.live()} == set(now.values())
    assert (after.asked_bytes, after.live) == (before.asked_bytes, before.live)
    assert (after.fragmentation or 0) <= (before.fragmentation or 0)
    for first, last in now.items():
        if first != last:
            with pytest.raises(DoubleFree):
                world.pool.free(first, None)
    check(world.pool)


def test_usage_adds_up_at_every_step(world: World) -> None:
    ticket = world.launch()
    spans = world.fill()
    for span, after in zip(spans, [None, ticket] * len(spans), strict=False):
        assert world.pool.usage().conserved
        world.pool.free(span, after)
    world.complete(ticket)
    assert world.pool.usage().conserved
    assert (world.pool.usage().asked_bytes, world.pool.usage().held_bytes, world.pool.usage().live) == (0, 0, 0)
    assert world.pool.usage().allocs == len(spans)
    assert world.pool.usage().hits <= len(spans)


def test_a_request_that_makes_no_sense_is_refused_with_all_its_problems(world: World) -> None:
    with pytest.raises(ValueError, match=r"bytes = 0.*alignment = 96.*name the session") as caught:
        AllocRequest(0, 96, PoolKind.IO, Lifetime.SESSION)
    assert "power of two" in str(caught.value)
