"""The interface between the engine, which decides what runs next, and the executors, which run it.

    engine: batch -> first executor -> Ticket, or None -> next executor -> ... -> the last one (eager) never says None
                                                   ticket completes -> completed() of each -> the engine lands it

An executor only replaces how a batch is run: the engine always lands an ordinary `StepResult`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from runtime.core.ports import Ticket
from runtime.guard.watchdog import Watchdog
from runtime.scheduling.batch import Batch
from runtime.scheduling.scheduler import Scheduler


class StepExecutor(Protocol):
    """A way to run a batch. All calls come from the engine's thread."""

    def run(self, batch: Batch, step: int) -> Ticket | None:
        """Start `batch` as launch number `step` and return at once; its completion goes to `Ledger.complete`.

        Return None to leave the batch to the next executor. Raise LaunchError or DeviceLost when nothing runs.
        """
        ...

    def completed(self, batch: Batch, ticket: Ticket) -> None:
        """Take note that `batch` has completed, run by any executor; the engine lands it next."""
        ...


@dataclass(slots=True)
class Progress:
    """Counters of an engine."""

    t_ns: int
    """When a launch last completed or a request last ended."""
    landed_ns: int = 0
    """When a launch or a copy last landed."""
    steps: int = 0
    """Launches, those that failed included."""
    prompt_tokens: int = 0
    """Prompt tokens of the requests whose first token was sampled."""
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
"""Makes the executors of an engine, in the order in which the engine calls them."""


def eager_only(parts: EngineParts) -> Sequence[StepExecutor]:
    """The chain of a live engine."""
    return (parts.eager,)
