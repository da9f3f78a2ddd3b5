"""Assembles a runtime from an EngineConfig, for live runs, virtual time and calibration.

    EngineConfig -> env -> block pool -> (caller's model and device) -> host memory, swap -> scheduler, guard, engine

The caller brings clock, sinks, device, host segments and the chain of step executors. Everything else is made here, so
that live and virtual runs have one runtime.
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
    """The host memory of one runtime, and the functions that work on it."""

    upstream: Upstream
    block_bytes: int
    """Bytes that the KV of one block takes on the host."""
    move: Callable[[Span, Span, int], None]
    poison: Callable[[str], Fill] | None = None
    timer: Timer | None = None
    """Clock (ns) that times allocations; None in virtual time, whose history must not depend on the machine."""


@dataclass(frozen=True)
class Assembly:
    """The parts of a runtime that `assemble` makes."""

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
    """The Env: clock, seed, faults and ledger. `wake` wakes the engine. With `faults = false` there is no injector."""
    faults: Faults | DisabledFaults = DisabledFaults()
    if config.faults:
        faults = Faults(catalogue(), clock.now_ns, on_fire, on_state, heartbeat_s=config.heartbeat_s)
    return Env(clock, config.seed, faults, Ledger(wake))


def make_block_pool(config: EngineConfig, env: Env, version: str, timer: Timer | None = None) -> PagedPool:
    """The pool of KV blocks. `version` names the weights: cached prefixes are not shared between weights."""
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
    """Makes host pools, swap space, and the engine with its scheduler and guard for `device`."""
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
