"""Evidence of the injector: each fire and the state of each fault. The second evidence of a fault is its symptom, which
is recorded by code that does not know the injector."""

from dataclasses import asdict, dataclass
from typing import Any

from faults.spec import FaultSpec


@dataclass(frozen=True, slots=True)
class Fire:
    """One fire. `on_fire` receives it before the damage is done, so that it is on disk before a kill."""

    fault: str
    n: int
    t_ns: int
    hit: int  # number of this crossing among the matching crossings of its key, from 1
    point: str
    action: str
    step: int | None
    request: str | None  # ids of all requests that the crossing touches, separated by commas
    group: str | None
    evidence: str  # a text that describes the crossing
    proof: str = "called"  # the injector was called; the symptom is recorded by other parts

    def to_json(self) -> dict[str, Any]:
        """Return the columns of table `fire`; the action is in `evidence`."""
        row = asdict(self)
        del row["action"]
        row["grp"] = row.pop("group")
        return row


@dataclass(frozen=True, slots=True)
class FaultState:
    """The state of one occurrence of a fault. Each time stamp is None until its event."""

    id: str
    n: int
    spec: FaultSpec
    arm_ns: int | None
    first_ns: int | None
    heal_ns: int | None
    healed_by: str | None  # times | for | ttl | heartbeat | harness | shutdown
    hits: int
    fired: int
    state: str  # a faults.fault_instance.State
    error: str | None = None  # the reason for state "invalid"

    def to_json(self) -> dict[str, Any]:
        """Return the columns of table `fault`. The table has no column for `error`."""
        row = asdict(self)
        del row["error"]
        return row | {"spec": self.spec.to_json(), "seed": self.spec.seed, "fired_min": self.spec.fired_min}
