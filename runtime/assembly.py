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
from runtime.memory.assembly import Timer
from runtime.memory.host import HostMemory, HostSegments
from runtime.memory.kv.paged import PagedPool
from runtime.points import catalogue


@dataclass(frozen=True)
class Assembly:
    """The parts of a runtime that `assemble` makes."""

    engine: Engine
    host: HostMemory


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
    segments: HostSegments,
    sink: Sink,
    chain: Chain = eager_only,
) -> Assembly:
    """Makes host memory with its swap space, and the engine with its scheduler and guard for `device`."""
    host = HostMemory(env, pool, segments, config.swap_blocks, device.copy)
    engine = Engine(env, device, pool, sink, mailbox, config.limits, config.bounds, host.swap, chain)
    return Assembly(engine, host)
