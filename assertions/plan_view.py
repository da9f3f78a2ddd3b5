"""PlanView is the typed part of plan.json that the judges need beside the history.

Durations are seconds and rates are per second, as plan.json writes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from assertions.planned import Expect, PlannedFault, PlannedLoad, faults_of, loads_of
from assertions.verdict import Level, RunIdentity

# Readers of a PlanView need its parts, so all of them come from here.
__all__ = ["Check", "Expect", "PhaseView", "PlanView", "PlannedFault", "PlannedJudge", "PlannedLoad"]


HANG_UP_TOKENS, HANG_UP_WITHIN_S = 4, 2.0
"""The work that a server may do for a client that has left, in plans that do not say it: tokens, seconds."""


@dataclass(frozen=True)
class PhaseView:
    name: str
    n: int
    planned_s: float | None  # None: given in completed work, not in time


@dataclass(frozen=True)
class Check:
    """A check of the scenario: `that` must hold for the requests of `load` or `group` in the time that `where`
    names."""

    that: str
    load: str | None = None
    group: str | None = None
    where: str = "outside"  # outside | all | a fault's id
    level: Level = Level.REQUIRED

    @property
    def name(self) -> str:
        place = [text for text in (self.load, self.group) if text] + ([self.where] if self.where != "outside" else [])
        return f"{self.that} [{', '.join(place)}]" if place else self.that


@dataclass(frozen=True)
class PlannedJudge:
    """The entry of one judge in plan.json. `state` is "planned" or "not_judged"."""

    name: str
    level: Level
    state: str
    because: str | None = None
    cure: str | None = None


@dataclass(frozen=True)
class PlanView:
    run: RunIdentity
    drive: str
    target_kind: str
    capabilities: frozenset[str]
    phases: tuple[PhaseView, ...] = ()
    faults: tuple[PlannedFault, ...] = ()
    loads: tuple[PlannedLoad, ...] = ()
    checks: tuple[Check, ...] = ()
    deadline_s: float | None = None  # the server's request timeout, where the scenario sets it
    hang_up_tokens: int = HANG_UP_TOKENS
    hang_up_within_s: float = HANG_UP_WITHIN_S
    canary_planned: bool = True
    canary_compared_min: float = 0.9
    canary_every_s: float = 5.0
    canary_by_itself: bool = False  # the target's own earlier answers are the reference
    quiesce_every_s: float | None = None
    trial_completed: int | None = None
    judges: Mapping[str, PlannedJudge] = field(default_factory=dict)

    @property
    def twins_planned(self) -> bool:
        """True when bystanders will be compared with their fault-free twins, which needs the model's weights."""
        return self.drive == "live" and "exact" in self.capabilities and bool(self.loads)

    @property
    def trial_s(self) -> float | None:
        """Planned seconds of trial, without quiesces; None when the trial is given in completed requests."""
        parts = [phase.planned_s for phase in self.phases if phase.name == "trial"]
        return None if not parts or None in parts else sum(part for part in parts if part is not None)

    @property
    def baseline_s(self) -> float:
        return sum(phase.planned_s or 0.0 for phase in self.phases if phase.name == "baseline")

    @classmethod
    def from_plan(cls, plan: Mapping[str, Any]) -> "PlanView":
        """Read plan.json. Raises KeyError for a missing key: seatrial wrote the plan, so that is a mistake of ours."""
        scenario = plan["scenario"]
        canary = scenario.get("canary", {})
        phases = scenario.get("phases") or {}
        capabilities = frozenset(plan["target"].get("capabilities", ()))
        return cls(
            run=RunIdentity(
                run_id=plan["run_id"],
                seed=int(plan["seed"]),
                commit=plan.get("commit"),
                dirty=bool(plan.get("dirty", False)),
                seatrial=plan.get("seatrial", "unknown"),
                scenario=scenario["name"],
                means=scenario.get("means", ""),
                replay=plan.get("replay"),
            ),
            drive=scenario.get("drive", "live"),
            target_kind=plan["target"]["kind"],
            capabilities=capabilities,
            phases=tuple(PhaseView(p["name"], int(p.get("n", 0)), p.get("planned_s")) for p in plan["phases"]),
            faults=faults_of(plan.get("faults", ()), scenario.get("fault") or ()),
            loads=loads_of(plan.get("load", ()), scenario.get("load") or ()),
            checks=tuple(_check(each) for each in scenario.get("check") or ()),
            deadline_s=((scenario.get("target") or {}).get("knobs") or {}).get("request_timeout_s"),
            hang_up_tokens=int((scenario.get("hang_up") or {}).get("tokens", HANG_UP_TOKENS)),
            hang_up_within_s=float((scenario.get("hang_up") or {}).get("within", HANG_UP_WITHIN_S)),
            canary_planned=canary is not None and bool(canary.get("every", 5.0)),
            canary_compared_min=float((canary or {}).get("compared_min", 0.9)),
            canary_every_s=float((canary or {}).get("every", 5.0)),
            canary_by_itself="exact" not in capabilities or (canary or {}).get("reference") == "self",
            quiesce_every_s=(phases.get("quiesce") or {}).get("every"),
            trial_completed=_completed(phases.get("trial")),
            judges={
                each["name"]: PlannedJudge(
                    each["name"], Level(each["level"]), each["state"], each.get("because"), each.get("cure")
                )
                for each in plan.get("judges", ())
            },
        )


def _check(record: Mapping[str, Any]) -> Check:
    return Check(
        that=record["that"],
        load=record.get("load"),
        group=record.get("group"),
        where=record.get("where") or "outside",
        level=Level(record.get("level") or "required"),
    )


def _completed(trial: object) -> int | None:
    return int(trial["completed"]) if isinstance(trial, Mapping) and trial.get("completed") else None
