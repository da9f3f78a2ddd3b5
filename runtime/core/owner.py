"""Who holds memory or crosses a fault point: one request of one tenant, in one phase of its life."""

from typing import NamedTuple

from faults import DisabledFaults, Effect, Faults
from faults.points import Point
from faults.spec import DEFAULT_GROUP


class Owner(NamedTuple):
    """A plain value that scheduling hands to memory; memory hands it on to the ledger and to the faults."""

    request: str
    """The request's id. It is the owner's name in the ledger, in audits and in figures."""
    tenant: str = DEFAULT_GROUP
    """The group that the request belongs to; a fault's `scope.group` compares with it."""
    phase: str = ""
    """prefill | decode; a fault's `scope.phase` compares with it."""

    def fire(
        self, point: Point, faults: Faults | DisabledFaults, *, place: str = "before", pool: str | None = None
    ) -> Effect | None:
        """Cross `point` as this owner; see `Faults.fire`. Call it only while a fault is armed."""
        request, group, phase = self
        return faults.fire(point, place=place, request=request, group=group, phase=phase, pool=pool)
