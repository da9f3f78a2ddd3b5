"""`[phases]`: warmup, baseline, trial (with quiesce points), recovery, restart and fresh, drain; the order is fixed."""

from typing import Annotated, Any

from pydantic import Discriminator, Tag

from scenarios.types import PositiveInt, PositiveSeconds, ScenarioTable, Seconds

TRIAL_MAX_S = 3600.0


class Warmup(ScenarioTable):
    """The warmup ends after `completed` requests and takes at most `max`."""

    completed: PositiveInt = 100
    max: PositiveSeconds = 120.0


class Work(ScenarioTable):
    """A trial counted in completed requests, of at most `max`."""

    completed: PositiveInt
    max: PositiveSeconds = TRIAL_MAX_S


class Quiesce(ScenarioTable):
    """Pauses of the load: every `every` the harness waits at most `max` until the target is idle, and audits it."""

    every: PositiveSeconds
    max: PositiveSeconds = 60.0


def time_or_table(value: Any) -> str:
    """The form that a value has, so that pydantic reports only that form's problems."""
    return "<work>" if isinstance(value, dict | ScenarioTable) else "<time>"


TimeOrWork = Annotated[
    Annotated[PositiveSeconds, Tag("<time>")] | Annotated[Work, Tag("<work>")], Discriminator(time_or_table)
]


class Phases(ScenarioTable):
    """The length of each phase. Load runs from the start of warmup to the end of recovery."""

    warmup: Warmup = Warmup()
    """Load before the measurement, until caches are warm."""
    baseline: Seconds = 15.0
    """The undisturbed service that recovery is measured against."""
    trial: TimeOrWork
    """The phase with faults: a time, or { completed, max }."""
    quiesce: Quiesce | None = None
    """Pauses for exact audits inside the trial."""
    recovery: Seconds = 30.0
    """Undisturbed service after the last fault."""
    fresh: Seconds = 0.0
    """Service of the target after it was started again, to compare with the time before; 0: no restart."""
    drain_max: PositiveSeconds = 30.0
    """The longest wait for the last replies."""
