"""Fault points of span pools, which the adaptor Fault crosses. The KV pool crosses `memory.free`, too."""

from faults import actions
from faults.points import Action, Kind, Point, Severity, shows
from faults.spec import PHASES
from runtime.memory.spans.failures import DefragFailed, OutOfMemory

MEMORY_ALLOC = Point(
    name="memory.alloc",
    layer="memory",
    breaks="a pool reports that it has no room, before or after it took a span; spans of other owners are untouched",
    actions=(actions.fail("oom", OutOfMemory, symptom="mark:memory.out_of_memory", placements=("before", "after")),),
    scope=(shows("group", "session", pool=("io",)), shows("session", pool=("activation",)), shows(pool=("workspace",))),
)

MEMORY_RESET = Point(
    name="memory.reset",
    layer="memory",
    breaks="a reset is lost: the spans in its scope stay with their owners, and nothing else changes",
    actions=(actions.drop(symptom="audit:leak"),),
    scope=(shows("session", pool=("activation",)),),
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
    scope=(shows(pool=("io",)),),
)

MEMORY_FREE = Point(
    name="memory.free",
    layer="memory",
    breaks="a release is lost: its blocks or span stay with their owner, and nothing else changes",
    actions=(Action("drop", Kind.DROP, severity=Severity.AFTER_CLEANUP, symptom="audit:leak"),),
    scope=(shows("group", pool=("kv",), phase=PHASES), shows("group", pool=("io",))),
)

POINTS = (MEMORY_FREE, MEMORY_ALLOC, MEMORY_RESET, MEMORY_DEFRAG)
