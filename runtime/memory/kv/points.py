"""Fault points of the paged KV pool and of swap. `memory.free`, which all pools cross, is in spans/points.py."""

from faults.actions import drop, fail
from faults.points import Point, shows
from faults.spec import PHASES
from runtime.core.errors import OutOfBlocks, SwapRefused

_BLOCKS = (shows("group", pool=("kv",), phase=PHASES),)
_HOST = (shows("group", pool=("io",), phase=PHASES),)

KV_TAKE = Point(
    name="kv.take",
    layer="memory",
    breaks="the KV pool reports that no block is left; blocks that are held are untouched",
    actions=(fail("oom", OutOfBlocks, symptom="mark:kv.out_of_blocks"),),
    scope=_BLOCKS,
)

KV_PUBLISH = Point(
    name="kv.publish",
    layer="memory",
    breaks="a computed block is not published: no request shares it; its own request continues as before",
    actions=(drop(symptom="mark:kv.unpublished"),),
    scope=_BLOCKS,
)

KV_EVICT = Point(
    name="kv.evict",
    layer="memory",
    breaks="cached blocks are not evicted when blocks are needed, so the next rung is tried; the cache stays whole",
    actions=(drop(symptom="mark:kv.out_of_blocks"),),
    scope=_BLOCKS,
)

SWAP_OUT = Point(
    name="swap.out",
    layer="memory",
    breaks="KV can't be copied to the host, as if it were full: the preempted request recomputes it; its tokens stay",
    actions=(fail("refuse", SwapRefused, symptom="mark:swap.refused"),),
    scope=_HOST,
)

SWAP_IN = Point(
    name="swap.in",
    layer="memory",
    breaks="KV can't be copied back from the host: the request recomputes it; its tokens stay",
    actions=(fail("refuse", SwapRefused, symptom="mark:swap.refused"),),
    scope=_HOST,
)

POINTS = (KV_TAKE, KV_PUBLISH, KV_EVICT, SWAP_OUT, SWAP_IN)
