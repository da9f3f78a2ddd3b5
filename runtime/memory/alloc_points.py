"""Fault points of the span pools, crossed by the adaptor Fault. Beside them it crosses `memory.free` of points.py."""

from faults import actions
from faults.points import Point, Severity
from runtime.memory.failures import DefragFailed, OutOfMemory

MEMORY_ALLOC = Point(
    name="memory.alloc",
    layer="memory",
    breaks="a pool says that it has no room, before it looked or after it had taken it; what others hold is untouched",
    actions=(actions.fail("oom", OutOfMemory, symptom="mark:memory.out_of_memory", placements=("before", "after")),),
    scope=("group", "session", "pool"),
)

MEMORY_RESET = Point(
    name="memory.reset",
    layer="memory",
    breaks="a reset is lost: the spans of its scope stay with their owners, and nothing else changes",
    actions=(actions.drop(symptom="audit:leak"),),
    scope=("group", "session", "pool"),
)

MEMORY_DEFRAG = Point(
    name="memory.defrag",
    layer="memory",
    breaks="defragmentation stops, at its start or before one of its moves; spans moved by then stay moved and whole",
    actions=(
        actions.fail(
            "error",
            DefragFailed,
            symptom="mark:memory.defrag_failed",
            severity=Severity.RECOVERABLE,
            placements=("before", "in_flight"),
        ),
    ),
    scope=("pool",),
)

POINTS = (MEMORY_ALLOC, MEMORY_RESET, MEMORY_DEFRAG)
