"""A size-class pool with its surroundings, small enough to reason about by hand."""

from itertools import pairwise

from faults import Catalogue, Faults, FaultSpec, Fire, When, parse_do
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.core.ports import Ticket
from runtime.memory.kv.points import POINTS
from runtime.memory.kv.prefix import PrefixIndex
from runtime.memory.spans.adaptors.base import Adaptor
from runtime.memory.spans.classes import Classes
from runtime.memory.spans.extents import Extents
from runtime.memory.spans.points import POINTS as ALLOC_POINTS
from runtime.memory.spans.pool import Pool
from runtime.memory.spans.span import AllocRequest, Lifetime, PoolKind, Span
from runtime.memory.spans.span_pool import SpanPool
from runtime.memory.spans.upstream import Reserve, Segments
from tests.runtime.fakes import SetClock

KIB, MIB = 1024, 1024 * 1024


class Bench:
    """`total_kib` of room in segments of `segment_kib`; every pool made here draws on the same room."""

    def __init__(self, total_kib: int = 1024, segment_kib: int = 1024) -> None:
        self.clock = SetClock()
        catalogue = Catalogue((*POINTS, *ALLOC_POINTS))
        self.fires: list[Fire] = []
        self.faults = Faults(catalogue, self.clock.now_ns, self.fires.append, lambda state: None)
        self.env = Env(self.clock, 0, self.faults, Ledger())
        self.reserve = Reserve(total_kib * KIB)
        self.segment_bytes = segment_kib * KIB
        self.pool = self.another("io")
        self._seq = 0

    def another(self, name: str) -> SpanPool:
        placement = Classes(Extents(Segments(self.reserve, name, self.segment_bytes)))
        return SpanPool(self.env, name, placement)

    def arm(self, do: str, place: str = "before", **when: object) -> None:
        self.faults.arm([FaultSpec(id="f", n=0, do=parse_do(do), place=place, when=When(**when))])  # type: ignore[arg-type]

    def launch(self) -> Ticket:
        self._seq += 1
        return Ticket(self._seq, None, 0)  # type: ignore[arg-type]

    def complete(self, ticket: Ticket) -> None:
        ticket.done_ns = 1
        self.env.ledger.complete(ticket)
        self.env.ledger.settle()


def ask(size_bytes: int, session: str = "s", lifetime: Lifetime = Lifetime.SESSION, group: str = "") -> AllocRequest:
    return AllocRequest(size_bytes, 64, PoolKind.IO, lifetime, session, group)


def stay(old: Span, new: Span, size_bytes: int) -> None:
    """A move that copies nothing and tells nobody."""


def check(pool: Pool) -> None:
    """Assert that no two places overlap and that the bytes of the pool add up."""
    while isinstance(pool, Adaptor):
        pool = pool.inner
    assert isinstance(pool, SpanPool)
    assert pool.usage().conserved, f"bytes of pool {pool.name} don't add up: {pool.usage()}"
    places = sorted([*(held.place for held in pool._live.values()), *pool._limbo.values()])
    for one, after in pairwise(places):
        assert one.segment != after.segment or one.end <= after.offset, f"{one} and {after} overlap"


def check_index(index: PrefixIndex) -> None:
    """Assert that the two maps of the index are inverse, and that each evictable block is in it."""
    assert {key: block for block, key in enumerate(index._keys) if key is not None} == index._blocks
    assert all(index._keys[block] is not None for block in index._evictable)
