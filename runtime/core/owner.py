"""The owner of memory and the subject of fault scopes: one request of one tenant, in prefill or decode."""

from typing import NamedTuple

from faults import DisabledFaults, Effect, Faults
from faults.points import Point
from faults.spec import DEFAULT_GROUP


class Owner(NamedTuple):
    """The owner of blocks or spans. Scheduling passes it to memory, and memory to the ledger and to fault points."""

    request: str
    """The request's id: the owner's name in the ledger, in audits and in metrics."""
    tenant: str = DEFAULT_GROUP
    """The group that the request belongs to; a fault's `scope.group` compares with it."""
    phase: str = ""
    """prefill | decode; a fault's `scope.phase` compares with it."""

    def fire(
        self, point: Point, faults: Faults | DisabledFaults, *, place: str = "before", pool: str | None = None
    ) -> Effect | None:
        """Cross `point` with this owner as the scope; see `Faults.fire`. Call it only while a fault is armed."""
        request, group, phase = self
        return faults.fire(point, place=place, request=request, group=group, phase=phase, pool=pool)
