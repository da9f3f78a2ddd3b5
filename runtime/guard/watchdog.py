"""Deadlines of requests, launches and copies. The watchdog reads the engine's clock and never waits on work.

deadline passed              the request ends with 504 at once; its blocks wait for the launch in flight
launch exceeds late_s        counted once: device.late
launch exceeds hang_fatal_s  the device is lost: DeviceLost
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from runtime.core.env import Env
from runtime.core.ports import Ticket
from runtime.scheduling.request import Request, RequestState


@dataclass(frozen=True, slots=True)
class Bounds:
    """Ages (seconds) at which a launch or a copy in flight is late, and at which the device is lost."""

    late_s: float = 0.5
    hang_fatal_s: float = 120.0

    @property
    def late_ns(self) -> int:
        """`late_s` in nanoseconds."""
        return int(self.late_s * 1e9)


class Watchdog:
    """Watches the requests and the launches of one engine."""

    def __init__(self, env: Env, bounds: Bounds) -> None:
        self._env = env
        self._late_ns = bounds.late_ns
        self._fatal_ns = int(bounds.hang_fatal_s * 1e9)
        self._deadlines: list[tuple[int, int, Request]] = []
        self._late: set[Ticket] = set()

    def watch(self, request: Request) -> None:
        """Watch the deadline of `request` until the request ends."""
        heapq.heappush(self._deadlines, (request.submit.deadline_ns, request.seq, request))

    def expired(self, now_ns: int) -> list[Request]:
        """Remove and return the open requests whose deadline has passed, earliest first."""
        expired = []
        while self._deadlines and self._next_deadline() <= now_ns:
            request = heapq.heappop(self._deadlines)[2]
            if request.state is not RequestState.ENDED:
                expired.append(request)
        return expired

    def lost(self, flight: Ticket, now_ns: int) -> bool:
        """Return whether this launch or copy exceeds `hang_fatal_s`. Count it when it first exceeds `late_s`."""
        age_ns = (flight.done_ns or now_ns) - flight.launched_ns
        if age_ns >= self._late_ns and flight not in self._late:
            self._late.add(flight)
            self._env.counters.hit("device.late")
            self._env.tell("guard_trip", "device.late", f"{flight.work}: {age_ns / 1e9:.3f} s in flight")
        return age_ns >= self._fatal_ns and not flight.done

    def over(self, flight: Ticket) -> None:
        """Forget `flight`, which is not in flight any more."""
        self._late.discard(flight)

    def next_ns(self, flights: Sequence[Ticket]) -> int | None:
        """Return the time (ns) of the next deadline or age limit; None when there is none."""
        due = []
        if self._deadlines:
            due.append(self._next_deadline())
        for flight in flights:
            due.append(flight.launched_ns + (self._fatal_ns if flight in self._late else self._late_ns))
        return min(due, default=None)

    def _next_deadline(self) -> int:
        while self._deadlines[0][2].state is RequestState.ENDED and len(self._deadlines) > 1:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0]
