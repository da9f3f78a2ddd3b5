"""The ports of the engine: clock, device and ticket. Devices implement them; no layer above a device imports torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from runtime.core.work import Claims, Copy, StepResult, Work


class Clock(Protocol):
    """A monotonic clock in nanoseconds: CLOCK_MONOTONIC live, `VirtualTime` in virtual time."""

    def now_ns(self) -> int:
        """Return the present time in nanoseconds."""
        ...


@dataclass(slots=True, eq=False)
class Ticket:
    """A launch or a copy in flight. The device sets `error` or a launch's `result`, then `done_ns`, and then reports
    the ticket to the ledger."""

    seq: int
    work: Work | Copy
    launched_ns: int
    done_ns: int | None = None
    result: StepResult | None = None
    error: BaseException | None = None

    @property
    def done(self) -> bool:
        """True once the device no longer reads or writes any block of this ticket."""
        return self.done_ns is not None


class Device(Protocol):
    """Runs launches and copies in the order of the calls. Both calls return at once on every device; the device
    reports a finished ticket to `Ledger.complete`."""

    def launch(self, work: Work, reads: Claims, writes: Sequence[int]) -> Ticket:
        """Queue one step and return its ticket.

        The device checks the claims `reads` against the tag plane before it stamps this step's own tags.
        `writes` are the blocks that contain `work.slots`. Raises LaunchError when the device refuses the step, and
        DeviceLost when it is lost: nothing runs then.
        """
        ...

    def copy(self, copy: Copy) -> Ticket:
        """Queue a copy and return its ticket. Raises LaunchError when the device refuses it, and DeviceLost when it is
        lost: nothing is copied then."""
        ...

    def holds(self, ticket: Ticket) -> bool:
        """Return whether the ticket is queued or running, or a fault delays its report. Any thread may ask."""
        ...

    def close(self) -> None:
        """Refuse new work and release the device's resources. Never wait for a hung launch."""
        ...
