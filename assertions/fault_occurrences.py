"""A fault occurrence joins the armings of one fault over restarts of the server.

    armed ---- fires ---- process dies | restart | armed again (persist) ---- fires ---- healed
    |------------------------------ one FaultRow ------------------------------------------|

A restart ends a fault that was armed in the earlier process, unless the fault says `persist`. Then the server arms it
again, and the injector writes another row and counts from 0 again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assertions.rows import Event, FaultRow

COLUMNS = "id, n, arm_ns, first_ns, heal_ns, healed_by, hits, fired, fired_min, state, spec"
RESTART = "restart"
"""The value of `healed_by` for a fault whose process died."""


def occurrences(
    rows: Iterable[Sequence[Any]], fires: Mapping[tuple[str, int], int], events: Sequence[Event]
) -> tuple[FaultRow, ...]:
    """Join rows of table fault, given as COLUMNS in the order of writing. The last row of an arming counts.

    `fires` holds the number of rows in table fire for each (id, n).
    """
    armings: dict[tuple[str, int], dict[int | None, Sequence[Any]]] = {}
    for row in rows:
        armings.setdefault((str(row[0]), int(row[1] or 0)), {})[row[2]] = row[2:]
    deaths = _restarted(events)
    return tuple(_one(*key, list(found.values()), fires.get(key, 0), deaths) for key, found in armings.items())


def _one(fault: str, n: int, armings: Sequence[Sequence[Any]], fire_rows: int, deaths: Sequence[int]) -> FaultRow:
    arms, firsts, _, _, hits, fires, *_ = zip(*armings, strict=True)
    arm_ns, _, heal_ns, healed_by, _, _, fired_min, state, spec = armings[-1]
    if heal_ns is None and arm_ns is not None and not _persists(spec):
        heal_ns = next((death for death in deaths if death >= arm_ns), None)
        healed_by = healed_by if heal_ns is None else RESTART
    fired = max(sum(count or 0 for count in fires), fire_rows)
    return FaultRow(
        id=fault,
        n=n,
        arm_ns=min((ns for ns in arms if ns is not None), default=None),
        first_ns=min((ns for ns in firsts if ns is not None), default=None),
        heal_ns=heal_ns,
        healed_by=healed_by,
        hits=max(sum(count or 0 for count in hits), fired),  # a killed process did not report its last hits
        fired=fired,
        fired_min=int(fired_min or 1),
        state=state,
    )


def _restarted(events: Sequence[Event]) -> list[int]:
    """Times (ns) at which a server process died and was started again."""
    server = [event for event in events if event.proc.startswith("server") and event.kind in ("start", "exit")]
    last_start = max((event.t_ns for event in server if event.kind == "start"), default=0)
    return [event.t_ns for event in server if event.kind == "exit" and event.t_ns <= last_start]


def _persists(spec: object) -> bool:
    try:
        return bool(json.loads(str(spec))["persist"])
    except (ValueError, KeyError, TypeError):
        return False
