"""Fault points of the memory layer."""

from faults.points import Action, Kind, Point, Severity
from runtime.core.errors import OutOfBlocks

KV_TAKE = Point(
    name="kv.take",
    layer="memory",
    breaks="the KV pool says that it has no block left; blocks already held are untouched",
    actions=(
        Action(
            word="oom",
            kind=Kind.RAISE,
            argument="",
            error=OutOfBlocks,
            severity=Severity.RECOVERABLE,
            symptom="mark:kv.out_of_blocks",
        ),
    ),
    scope=("group", "pool", "phase", "request", "step"),
)

MEMORY_FREE = Point(
    name="memory.free",
    layer="memory",
    breaks="a release is lost: the blocks stay with their owner, and nothing else changes",
    actions=(
        Action(
            word="drop",
            kind=Kind.DROP,
            argument="",
            error=None,
            severity=Severity.AFTER_CLEANUP,
            symptom="audit:leak",
        ),
    ),
    scope=("group", "pool", "phase", "request", "step"),
)

KV_PUBLISH = Point(
    name="kv.publish",
    layer="memory",
    breaks="a computed block is not published: nobody shares it, and its request goes on with it as before",
    actions=(
        Action(
            word="drop",
            kind=Kind.DROP,
            argument="",
            error=None,
            severity=Severity.RECOVERABLE,
            symptom="mark:kv.unpublished",
        ),
    ),
    scope=("group", "pool", "phase", "request", "step"),
)

KV_EVICT = Point(
    name="kv.evict",
    layer="memory",
    breaks="cached blocks are not evicted when room is needed, so the next rung must find it; the cache stays whole",
    actions=(
        Action(
            word="drop",
            kind=Kind.DROP,
            argument="",
            error=None,
            severity=Severity.RECOVERABLE,
            symptom="mark:kv.out_of_blocks",
        ),
    ),
    scope=("group", "pool", "phase", "request", "step"),
)

POINTS = (KV_TAKE, KV_PUBLISH, KV_EVICT, MEMORY_FREE)
