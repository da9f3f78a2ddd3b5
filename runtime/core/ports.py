"""The seam between engine and world: clock, device, ticket. Devices implement it; nothing above knows torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from runtime.core.work import Claim, Copy, StepResult, Work


class Clock(Protocol):
    """Monotonic nanoseconds; a virtual one jumps, a live one is CLOCK_MONOTONIC."""

    def now_ns(self) -> int:
        """The present."""
        ...


@dataclass(slots=True, eq=False)
class Ticket:
    """A launch or a copy in flight. The device fills `done_ns`, and `error` or a launch's `result`, then reports it to
    the ledger."""

    seq: int
    work: Work | Copy
    launched_ns: int
    done_ns: int | None = None
    result: StepResult | None = None
    error: BaseException | None = None

    @property
    def done(self) -> bool:
        """Whether the device has finished with everything this ticket read and wrote."""
        return self.done_ns is not None


class Device(Protocol):
    """Runs launches and copies in the order in which they came. Both calls return at once on every device; completion
    goes to `Ledger.complete`."""

    def launch(self, work: Work, reads: Sequence[Claim], writes: Sequence[int]) -> Ticket:
        """Queue one step.

        `reads` are checked against the tag plane before this step's own tags are stamped; `writes` are the blocks
        that `work.slots` falls into. Raises LaunchError when the device refused it at once: nothing then ran.
        """
        ...

    def copy(self, copy: Copy) -> Ticket:
        """Queue a copy. Raises LaunchError when the device refused it at once: nothing will be copied."""
        ...

    def close(self) -> None:
        """Stop taking work and give back what the device holds; never waits for a hung launch."""
        ...
