"""The pools on a device's thread, assembled alike for live runs and virtual time. (The pool of host memory is in
host.py; KV and the prefix cache are a PagedPool.)

    weight       Stats > extents                    never freed
    activation   Stats > Retry > Fault > arena      reset with each step
    workspace    Stats > Retry > FaultAlloc > ring  taken and freed by each operator

A ledger belongs to one thread. These pools have their own, since a launch allocates while the engine's thread runs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.memory.spans.adaptors.fault import Fault, FaultAlloc
from runtime.memory.spans.adaptors.retry import Retry, Rung, ladder
from runtime.memory.spans.adaptors.stats import Stats
from runtime.memory.spans.arena import Arena
from runtime.memory.spans.extents import Extents
from runtime.memory.spans.placement import Placement
from runtime.memory.spans.pool import Pool, Pools
from runtime.memory.spans.ring import Ring
from runtime.memory.spans.span import AllocRequest, Lifetime, PoolKind, ResetScope
from runtime.memory.spans.span_pool import Returned, SpanPool
from runtime.memory.spans.upstream import Segments, Upstream

MIB = 1 << 20
STEPS_MAX = 4
"""Segments of the arena, each for the largest step. One is in use; the others replace segments whose reset was lost."""
ALIGNMENT = 64
"""Bytes, of every span."""

Poison = Callable[[str], Returned]
"""Returns, for the name of a pool, a function that overwrites freed bytes: a later read gets a visibly wrong value."""
Timer = Callable[[], int]
"""Wall time in ns. Without a timer, as in virtual time, no latency is measured."""


@dataclass(frozen=True, slots=True)
class PoolSizes:
    """Sizes of the device's pools, in bytes. Raises ValueError for a size below 1."""

    weight: int = MIB
    """All weights, in one segment."""
    step: int = MIB
    """The activations of the largest step."""
    workspace: int = MIB
    """Scratch of the largest operator."""

    def __post_init__(self) -> None:
        wrong = [f"{name} = {getattr(self, name)}" for name in self.__slots__ if getattr(self, name) < 1]
        if wrong:
            raise ValueError(f"pool sizes {', '.join(wrong)}: give at least 1 byte")


def device_pools(
    env: Env,
    upstream: Upstream,
    sizes: PoolSizes,
    *,
    poison: Poison | None = None,
    timer: Timer | None = None,
) -> Pools:
    """Make the pools weight, activation and workspace. The thread that runs launches makes all calls; before it runs,
    the thread that loads the weights does."""
    own = replace(env, ledger=Ledger())
    weight = span_pool(own, "weight", Extents(Segments(upstream, "weight", sizes.weight)), poison)
    ring = Ring(Segments(upstream, "workspace", sizes.workspace, segments_max=1))
    workspace = FaultAlloc(span_pool(own, "workspace", ring, poison), own)
    arena = Arena(Segments(upstream, "activation", sizes.step, segments_max=STEPS_MAX))
    activation = Fault(span_pool(own, "activation", arena, poison), own)
    rungs = (_take_back(activation), *ladder(own, activation, neighbours=(workspace,)))
    return {
        PoolKind.WEIGHT: Stats(weight, env.clock, timer),
        PoolKind.ACTIVATION: Stats(Retry(activation, own, rungs), env.clock, timer),
        PoolKind.WORKSPACE: Stats(Retry(workspace, own, ()), env.clock, timer),
    }


def span_pool(env: Env, name: str, placement: Placement, poison: Poison | None) -> SpanPool:
    """Make a pool on `placement`. `poison` overwrites its freed bytes."""
    pool = SpanPool(env, name, placement, ALIGNMENT)
    if poison is not None:
        pool.on_return.append(poison(name))
    return pool


def _take_back(arena: Pool) -> Rung:
    """The first rung of the arena. Steps run one at a time, so spans of another step are left over from a lost reset.
    They are reset only when a request fails: until then an audit shows them as leaks."""

    def climb(request: AllocRequest) -> bool:
        lost = {other.session for _, other in arena.live()} - {request.session}
        return sum(arena.reset(ResetScope(Lifetime.GRAPH, session), None) for session in sorted(lost)) > 0

    return Rung("take_back", climb)
