"""The host side of a runtime's memory: its pools on the engine's thread, and the swap space in them."""

from collections.abc import Callable

from runtime.core.env import Env
from runtime.core.ports import Ticket
from runtime.core.work import Copy
from runtime.memory.assembly import MIB, Fill, PoolSizes, SpanMover, Timer, engine_pools
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.swap import SwapSpace
from runtime.memory.spans.pools import Pools
from runtime.memory.spans.span import PoolKind, Span
from runtime.memory.spans.upstream import Upstream

SEGMENT_BYTES = 4 * MIB


def host_memory(
    env: Env,
    kv: PagedPool,
    upstream: Upstream,
    block_bytes: int,
    swap_blocks: int,
    copy: Callable[[Copy], Ticket],
    move: Callable[[Span, Span, int], None],
    poison: Callable[[str], Fill] | None = None,
    timer: Timer | None = None,
) -> tuple[Pools, SwapSpace | None]:
    """The pool io, and a swap space for `swap_blocks` blocks of `block_bytes` each (0: none).

    `copy` is the device's; `move` copies bytes within the host's segments; `poison` overwrites what comes back.
    """
    io_bytes = max(1, swap_blocks * block_bytes)
    sizes = PoolSizes(io=io_bytes, io_segment=min(SEGMENT_BYTES, io_bytes))
    mover = SpanMover(move)
    pools = engine_pools(env, upstream, sizes, mover, poison=poison, timer=timer)
    if not swap_blocks:
        return pools, None
    swap = SwapSpace(env, kv, pools[PoolKind.IO], block_bytes, copy)
    mover.held_by(swap.renew, swap.barrier)
    return pools, swap
