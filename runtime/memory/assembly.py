"""The pools of a runtime, the same live and in virtual time; only what is upstream differs.

    engine's thread    io             Stats > Retry > Limit > Track > Fault > size classes      swap and staging
    device's thread    weight         Stats > extents                        filled once, before faults can be armed
                       activation     Stats > Retry > Fault > arena                             a step
                       workspace      Stats > Retry > FaultAlloc > ring                         an operator

A pool belongs to one thread, and so does its ledger: the device's pools keep one of their own, since a launch takes and
gives back while the engine does. Poison goes in below Fault where it is asked for. KV and the prefix cache are a
PagedPool of their own, on the engine's thread.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.core.ports import Ticket
from runtime.memory.spans.adaptors import Fault, FaultAlloc, Limit, Poison, Retry, Rung, Stats, Track, ladder
from runtime.memory.spans.arena import Arena
from runtime.memory.spans.classes import Classes
from runtime.memory.spans.extents import Extents
from runtime.memory.spans.failures import DefragFailed
from runtime.memory.spans.placement import Place, Placement
from runtime.memory.spans.pool import Pool
from runtime.memory.spans.pools import Pools
from runtime.memory.spans.ring import Ring
from runtime.memory.spans.span import AllocRequest, Lifetime, PoolKind, ResetScope, Span
from runtime.memory.spans.span_pool import SpanPool
from runtime.memory.spans.upstream import Segments, Upstream

MIB = 1 << 20
STEPS_MAX = 4
"""Segments of the arena, each for the largest step: one is in use, the others take what a lost reset leaves behind."""

Fill = Callable[[Place, int], None]
Timer = Callable[[], int]


@dataclass(frozen=True, slots=True)
class PoolSizes:
    """Bytes, checked when made."""

    weight: int = MIB
    """One segment that holds all weights."""
    step: int = MIB
    """The activations of the largest step."""
    workspace: int = MIB
    """The largest operator's scratch."""
    io: int = 64 * MIB
    """At most, for swap and staging together."""
    io_segment: int = 4 * MIB

    def __post_init__(self) -> None:
        wrong = [f"{name} = {getattr(self, name)}" for name in self.__slots__ if getattr(self, name) < 1]
        if wrong:
            raise ValueError(f"pool sizes {', '.join(wrong)}: give at least 1 byte")


class SpanMover:
    """The move of a pool that can be defragmented: copies the bytes, then tells who holds the span.

    Until somebody says that he holds spans, by `held_by`, none is moved: a handle that nobody renews is lost.
    """

    def __init__(self, copy: Callable[[Span, Span, int], None] = lambda old, new, size_bytes: None) -> None:
        self._copy = copy
        self._tell: Callable[[Span, Span], None] | None = None
        self._barrier: Callable[[], Ticket | None] = lambda: None

    def held_by(self, tell: Callable[[Span, Span], None], barrier: Callable[[], Ticket | None]) -> None:
        """`tell(old, new)` renews a handle; `barrier` is the last launch that may touch any span of the pool."""
        self._tell, self._barrier = tell, barrier

    def barrier(self) -> Ticket | None:
        """Nothing moves onto bytes that this launch touches."""
        return self._barrier()

    def __call__(self, old: Span, new: Span, size_bytes: int) -> None:
        if self._tell is None:
            raise DefragFailed(f"{old} can't be moved: nobody has said who holds the spans of its pool")
        self._copy(old, new, size_bytes)
        self._tell(old, new)


def engine_pools(
    env: Env,
    upstream: Upstream,
    sizes: PoolSizes,
    mover: SpanMover,
    *,
    poison: Callable[[str], Fill] | None = None,
    timer: Timer | None = None,
) -> Pools:
    """The pool io; all calls belong to the engine's thread. `timer` gives wall time in ns; without it no latency is
    measured."""
    io = SpanPool(env, "io", Classes(Extents(Segments(upstream, "io", sizes.io_segment))), alignment=64)
    guarded = Limit(Track(Fault(_poisoned(io, poison), env), env), sizes.io)
    climbing = Retry(guarded, env, ladder(env, guarded, move=mover, barrier=mover.barrier))
    seen = _seen(env, climbing, timer)
    return Pools({PoolKind.IO: seen})


def device_pools(
    env: Env,
    upstream: Upstream,
    sizes: PoolSizes,
    *,
    poison: Callable[[str], Fill] | None = None,
    timer: Timer | None = None,
) -> Pools:
    """weight, activation and workspace; all calls belong to the thread that runs launches (before it runs: to who
    loads the weights)."""
    own = replace(env, ledger=Ledger())

    def span_pool(name: str, placement: Placement) -> Pool:
        return _poisoned(SpanPool(own, name, placement, alignment=64), poison)

    weight = span_pool("weight", Extents(Segments(upstream, "weight", sizes.weight)))
    ring = Ring(Segments(upstream, "workspace", sizes.workspace, segments_max=1))
    workspace = FaultAlloc(span_pool("workspace", ring), own)
    arena = Arena(Segments(upstream, "activation", sizes.step, segments_max=STEPS_MAX))
    activation = Fault(span_pool("activation", arena), own)
    rungs = (_take_back(activation), *ladder(own, activation, neighbours=(workspace,)))
    return Pools(
        {
            PoolKind.WEIGHT: _seen(own, weight, timer),
            PoolKind.ACTIVATION: _seen(own, Retry(activation, own, rungs), timer),
            PoolKind.WORKSPACE: _seen(own, Retry(workspace, own, ()), timer),
        }
    )


def _poisoned(pool: Pool, poison: Callable[[str], Fill] | None) -> Pool:
    return pool if poison is None else Poison(pool, poison(pool.name))


def _take_back(arena: Pool) -> Rung:
    """The first rung of the arena: steps run one at a time, so what another step still holds is a reset that was lost.
    Not before room is short: until then an audit shows whose it is."""

    def climb(request: AllocRequest) -> bool:
        lost = {other.session for _, other in arena.live()} - {request.session}
        return sum(arena.reset(ResetScope(Lifetime.GRAPH, session), None) for session in sorted(lost)) > 0

    return Rung("take_back", climb)


def _seen(env: Env, pool: Pool, timer: Timer | None) -> Pool:
    return Stats(pool, env.clock, timer)
