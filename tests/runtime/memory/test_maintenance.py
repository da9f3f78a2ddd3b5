"""Between two steps: empty segments go back under pressure, holes are closed in quiet hours.

The world holds the spans in place of a swap space."""

import pytest

from runtime.core.ports import Ticket
from runtime.core.work import Copy
from runtime.memory.host import HostMemory, HostSegments
from runtime.memory.kv.paged import PagedPool
from runtime.memory.maintenance import EVERY_NS, MaintenanceLoop
from runtime.memory.spans.failures import DefragFailed, LimitReached
from runtime.memory.spans.span import AllocRequest, Lifetime, PoolKind, Span
from runtime.memory.spans.upstream import Reserve
from runtime.memory.spans.usage import MemoryFigures
from tests.runtime.memory.spans.bench import KIB, MIB, Bench


class World:
    def __init__(self, free: int | None = 10 * MIB) -> None:
        self.bench = Bench()
        self.free = free
        self.busy = False
        self.launch: Ticket | None = None
        self.held: dict[Span, int] = {}
        self.room = Reserve(16 * MIB)
        env = self.bench.env
        segments = HostSegments(self.room, 8 * KIB, lambda old, new, size_bytes: None)
        self.host = HostMemory(env, PagedPool(env, 1, 4), segments, 1024, self.copy)
        self.host.swap = self  # type: ignore[assignment]
        self.pool = self.host.pool
        self.maintenance = MaintenanceLoop(
            env,
            self.host,
            lambda: self.free,
            MIB,
            lambda free_bytes: MemoryFigures((self.pool.usage(),), free_bytes=free_bytes),
        )

    def copy(self, copy: Copy) -> Ticket:
        raise AssertionError("nothing is swapped here")

    def replace_handle(self, old: Span, new: Span) -> None:
        self.held[new] = self.held.pop(old)

    def barrier(self) -> Ticket | None:
        if self.busy:
            raise DefragFailed("a copy is in flight")
        return self.launch

    def swap(self, size: int) -> Span:
        span = self.pool.alloc(AllocRequest(size, pool=PoolKind.IO, lifetime=Lifetime.SESSION, session="s"))
        self.held[span] = size
        return span

    def in_pieces(self, spans: int = 14) -> None:
        """Every second span of 280 KiB is free: nearly all that is free lies apart."""
        for span in [self.swap(280 * KIB) for _ in range(spans)][::2]:
            del self.held[span]
            self.pool.free(span, None)

    def turn(self) -> None:
        self.maintenance.turn()
        self.bench.clock.t_ns += EVERY_NS


def test_pressure_gives_back_what_holds_nothing_and_is_counted():
    world = World()
    world.pool.free(world.swap(KIB), None)
    world.turn()
    assert world.room.left_bytes == 12 * MIB
    world.free = MIB - 1
    world.turn()
    assert world.room.left_bytes == 16 * MIB
    assert world.bench.env.counters.take() == {"memory.pressure": 1}
    assert world.maintenance.figures.free_bytes == MIB - 1


def test_under_pressure_the_swap_pool_grows_no_further_until_there_is_twice_the_floor():
    world = World(free=MIB - 1)
    kept = world.swap(KIB)
    world.turn()
    with pytest.raises(LimitReached):
        world.swap(KIB)
    world.free = 2 * MIB - 1
    world.turn()
    with pytest.raises(LimitReached):
        world.swap(KIB)
    world.free = 2 * MIB
    world.turn()
    world.swap(MIB)
    assert kept in world.held


def test_figures_out_of_date_are_taken_again_within_a_second():
    world = World()
    world.turn()
    assert world.maintenance.wait_s() is None, "they are of now"
    world.bench.clock.t_ns -= EVERY_NS // 4
    world.maintenance.turn()
    assert world.maintenance.wait_s() == pytest.approx(0.25)


def test_a_device_that_cannot_say_is_under_no_pressure():
    world = World(free=None)
    world.turn()
    assert not world.bench.env.counters.take()


def test_holes_are_closed_and_holders_are_told():
    world = World()
    world.in_pieces()
    assert world.pool.usage().fragmentation > 0.7
    world.turn()
    assert world.pool.usage().fragmentation < 0.7
    assert sorted(world.held) == sorted(span for span, _ in world.pool.live())


def test_old_places_come_back_only_when_the_launch_that_touches_them_is_done():
    world = World()
    world.in_pieces()
    world.launch = world.bench.launch()
    world.turn()
    usage = world.pool.usage()
    assert usage.limbo_bytes > 0
    world.bench.complete(world.launch)
    assert world.pool.usage().limbo_bytes == 0


def test_nothing_moves_while_a_copy_is_in_flight_and_a_failed_move_is_counted():
    world = World()
    world.in_pieces()
    world.busy = True
    before = sorted(world.held)
    world.turn()
    assert sorted(world.held) == before
    assert not world.bench.env.counters.take(), "to wait is no failure"
    world.busy = False
    world.bench.arm("memory.defrag: error", place="in_flight", skip=1)
    world.turn()
    assert world.bench.env.counters.take() == {"memory.defrag_failed": 1}
    assert sorted(world.held) == sorted(span for span, _ in world.pool.live()), "one moved, and is known"
    world.turn()
    assert world.pool.usage().fragmentation < 0.7, "healed"


def test_it_turns_once_in_a_while_and_shows_figures_of_then():
    world = World()
    world.turn()
    (usage,) = world.maintenance.figures.pools
    world.bench.clock.t_ns -= 1
    world.swap(KIB)
    world.maintenance.turn()
    assert world.maintenance.figures.pools == (usage,)
    world.bench.clock.t_ns += 1
    world.maintenance.turn()
    assert world.maintenance.figures.pools[0].live == 1


@pytest.mark.parametrize(("spans", "moves"), [(13, 0), (14, 4)])
def test_spans_are_moved_in_the_top_band_only(spans: int, moves: int):
    world = World()
    world.in_pieces(spans)
    assert world.pool.usage().fragmentation == pytest.approx(0.87 if moves else 0.695, abs=0.01)
    before = set(world.held)
    world.turn()
    assert len(before - set(world.held)) == moves
    assert (world.pool.usage().fragmentation == 0) == bool(moves)


def test_an_empty_segment_stays_until_free_bytes_are_in_pieces():
    world = World()
    first, second = world.swap(4000 * KIB), world.swap(4000 * KIB)
    world.pool.free(first, None)
    world.turn()
    assert (world.pool.usage().total_bytes, world.pool.usage().fragmentation < 0.3) == (8192 * KIB, True)
    world.swap(400 * KIB)
    world.swap(3000 * KIB)
    world.pool.free(second, None)
    world.turn()
    assert world.pool.usage().total_bytes <= 8192 * KIB
