"""The one place where a runtime is assembled, for live, for virtual time and for calibration.

    EngineConfig -> env -> block pool -> (the world's model and device) -> host memory, swap -> scheduler, guard, engine

A world brings what differs: clock, sinks, device, host segments, and how a batch is run. Everything else is made here
from one EngineConfig, so that no world can have a runtime of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass

from faults import DisabledFaults, Faults, FaultState, Fire
from runtime.config import EngineConfig
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.core.messages import Mailbox, Sink
from runtime.core.ports import Clock, Device
from runtime.engine import Chain, Engine, eager_only
from runtime.memory.assembly import Fill, Timer
from runtime.memory.host import host_memory
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.swap import SwapSpace
from runtime.memory.spans.pools import Pools
from runtime.memory.spans.span import Span
from runtime.memory.spans.upstream import Upstream
from runtime.points import catalogue


@dataclass(frozen=True)
class HostSegments:
    """Host memory of one world."""

    upstream: Upstream
    block_bytes: int
    """KV of one block, as it lies on the host."""
    move: Callable[[Span, Span, int], None]
    poison: Callable[[str], Fill] | None = None
    timer: Timer | None = None
    """Wall time of allocations, ns; None in virtual time, whose history must be the same everywhere."""


@dataclass(frozen=True)
class Assembly:
    """The parts that were made for one device."""

    engine: Engine
    host_pools: Pools
    swap: SwapSpace | None


def make_env(
    config: EngineConfig,
    clock: Clock,
    wake: Callable[[], None],
    on_fire: Callable[[Fire], None],
    on_state: Callable[[FaultState], None],
) -> Env:
    """Clock, seed, faults and ledger. `wake` gives the engine a turn; `faults = false` leaves the injector out."""
    faults: Faults | DisabledFaults = DisabledFaults()
    if config.faults:
        faults = Faults(catalogue(), clock.now_ns, on_fire, on_state, heartbeat_s=config.heartbeat_s)
    return Env(clock, config.seed, faults, Ledger(wake))


def make_block_pool(config: EngineConfig, env: Env, version: str, timer: Timer | None = None) -> PagedPool:
    """The pool of KV blocks. `version` names the weights: other weights share no cached prefix."""
    return PagedPool(
        env,
        config.kv_blocks,
        config.block_tokens,
        prefix_cache=config.prefix_cache,
        version=version,
        timer=timer,
    )


def assemble(
    config: EngineConfig,
    env: Env,
    mailbox: Mailbox,
    pool: PagedPool,
    device: Device,
    host: HostSegments,
    sink: Sink,
    chain: Chain = eager_only,
) -> Assembly:
    """Host pools, swap space, and the engine with its scheduler and guard over `device`."""
    pools, swap = host_memory(
        env,
        pool,
        host.upstream,
        host.block_bytes,
        config.swap_blocks,
        device.copy,
        host.move,
        host.poison,
        host.timer,
    )
    engine = Engine(env, device, pool, sink, mailbox, config.limits, config.bounds, swap, chain)
    return Assembly(engine, pools, swap)
