"""The seam between the engine, which decides what runs next, and the executors, which run it.

    engine: batch -> first executor -> Ticket, or None -> next executor -> ... -> the last one (eager) never says None
                                                   ticket completes -> completed() of each -> the engine lands it

An executor replaces how a batch is run and nothing else: whatever it does, the engine lands one ordinary `StepResult`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from runtime.core.ports import Ticket
from runtime.guard.watchdog import Watchdog
from runtime.scheduling.batch import Batch
from runtime.scheduling.scheduler import Scheduler


class StepExecutor(Protocol):
    """One way to run a batch. All calls come from the engine's thread."""

    def run(self, batch: Batch, step: int) -> Ticket | None:
        """Start `batch` as launch number `step` and return at once; its completion goes to `Ledger.complete`.

        None leaves the batch to the next executor. Raises LaunchError or DeviceLost when nothing runs.
        """
        ...

    def completed(self, batch: Batch, ticket: Ticket) -> None:
        """`batch` has completed, run by whichever executor, and the engine is about to land it."""
        ...


@dataclass(slots=True)
class Progress:
    """What an engine has done so far."""

    t_ns: int
    """When a launch last completed or a request last ended."""
    steps: int = 0
    """Launches, those that failed included."""
    prompt_tokens: int = 0
    """Of requests whose first token was drawn."""
    generation_tokens: int = 0


@dataclass(frozen=True, slots=True)
class EngineParts:
    """The parts of an engine that an executor may read and move on."""

    scheduler: Scheduler
    watchdog: Watchdog
    progress: Progress
    eager: StepExecutor
    """The executor that takes every batch."""


Chain = Callable[[EngineParts], Sequence[StepExecutor]]
"""Makes an engine's executors, in the order in which they are asked."""


def eager_only(parts: EngineParts) -> Sequence[StepExecutor]:
    """The chain of a live engine."""
    return (parts.eager,)
