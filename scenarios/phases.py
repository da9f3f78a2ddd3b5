"""`[phases]`: warmup, baseline, trial (with quiesce points), recovery, drain; the order is fixed."""

from typing import Annotated, Any

from pydantic import Discriminator, Tag

from scenarios.types import PositiveInt, PositiveSeconds, ScenarioTable, Seconds

TRIAL_MAX_S = 3600.0


class Warmup(ScenarioTable):
    """Ends after `completed` requests; `max` is the longest it may take."""

    completed: PositiveInt = 100
    max: PositiveSeconds = 120.0


class Work(ScenarioTable):
    """A trial counted in completed requests; `max` is the longest it may take."""

    completed: PositiveInt
    max: PositiveSeconds = TRIAL_MAX_S


class Quiesce(ScenarioTable):
    """Stop the load every so often, wait until the target is idle (at most `max`), audit, go on."""

    every: PositiveSeconds
    max: PositiveSeconds = 60.0


def time_or_table(value: Any) -> str:
    """Which of the two forms a value has, so that only that form's problems are reported."""
    return "<work>" if isinstance(value, dict | ScenarioTable) else "<time>"


TimeOrWork = Annotated[
    Annotated[PositiveSeconds, Tag("<time>")] | Annotated[Work, Tag("<work>")], Discriminator(time_or_table)
]


class Phases(ScenarioTable):
    """How long each part lasts. Load runs from the start of warmup to the end of recovery."""

    warmup: Warmup = Warmup()
    """Until the caches are warm, counted in completed requests."""
    baseline: Seconds = 15.0
    """The undisturbed service that recovery is measured against."""
    trial: TimeOrWork
    """The part with faults: a time, or { completed, max }."""
    quiesce: Quiesce | None = None
    """Pauses for exact audits inside the trial."""
    recovery: Seconds = 30.0
    """Undisturbed service after the last fault."""
    drain_max: PositiveSeconds = 30.0
    """Longest wait for the last replies."""
