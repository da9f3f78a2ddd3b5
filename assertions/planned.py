"""Planned faults and loads of a PlanView, read from plan.json.

Durations are seconds and rates are per second. plan.json also holds the scenario, and some keys are only there.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assertions.arrival_counts import ArrivalCounts


@dataclass(frozen=True)
class Expect:
    """The effects that a fault may have (`outcomes` for `victims`) and must have (`marks`, recovery in time)."""

    outcomes: frozenset[str] = frozenset({"ok"})
    victims: str = "hit"  # hit | scope | all
    marks: tuple[str, ...] = ()
    recover_s: float | None = 30.0
    recover_completed: int | None = None


@dataclass(frozen=True)
class Trigger:
    """The conditions under which an armed fault fires and ends, in matching crossings of its point and in seconds."""

    skip: int = 0
    times: int = 1
    interval: int = 1
    probability: float = 1.0
    for_s: float | None = None
    ttl_s: float | None = None
    hold_s: float = 0.0  # how long one fire lasts by its action; infinite when it lasts until it is healed
    persist: bool = False  # after its first fire it breaks every crossing until it is healed, also after a restart


@dataclass(frozen=True)
class PlannedFault:
    id: str
    n: int
    do: str
    point: str
    action: str
    symptom: str  # "mark:NAME", "outcome:WORD", "audit:leak", ...; "" when the action declares none
    severity: str
    scope: Mapping[str, str]
    fired_min: int
    expect: Expect
    at_s: float | None = None
    after: str | None = None
    trigger: Trigger = field(default_factory=Trigger)

    @property
    def name(self) -> str:
        return f"{self.id}#{self.n}"

    @property
    def kills_server(self) -> bool:
        """True when this fault may end the server, so that judge `alive` must not count that death."""
        return self.severity == "fatal" or self.action in {"kill", "sigkill", "sigterm", "signal"}


@dataclass(frozen=True)
class PlannedLoad:
    """A planned load: one stream of requests. Shares are shares of its requests."""

    id: str
    group: str | None = None
    probe: bool = False
    rate_mean: float | None = None
    rate_max: float | None = None
    arrivals_planned: int | None = None
    period_s: float | None = None
    rate_min: float | None = None
    ramp_s: float = 0.0  # how long the rate rises before it stays
    by_chance: bool = True  # False: the rate is exact
    answered_share: float = 1.0  # neither cancelled by the plan nor broken on purpose
    malformed_share: float = 0.0
    cancelled_share: float = 0.0
    stream_share: float = 1.0
    output_tokens: float | None = None  # mean tokens of a reply; None when only the trace knows
    timeout_s: float | None = None  # how long its clients wait
    arrival_counts: ArrivalCounts | None = None  # arrivals of a trace load


def faults_of(planned: Sequence[Mapping[str, Any]], written: Sequence[Mapping[str, Any]]) -> tuple[PlannedFault, ...]:
    words = {each["id"]: each for each in written}
    return tuple(_fault(each, words.get(each["id"], {})) for each in planned)


def _fault(record: Mapping[str, Any], words: Mapping[str, Any]) -> PlannedFault:
    expect = record.get("expect") or {}
    return PlannedFault(
        id=record["id"],
        n=int(record.get("n", 0)),
        do=record["do"],
        point=record["point"],
        action=record["action"],
        symptom=record.get("symptom") or "",
        severity=record.get("severity") or "recoverable",
        scope={key: str(value) for key, value in (record.get("scope") or {}).items() if value is not None},
        fired_min=int(record.get("fired_min", 1)),
        expect=Expect(
            outcomes=frozenset(expect.get("outcomes", ("ok",))),
            victims=expect.get("victims", "hit"),
            marks=tuple(expect.get("marks", ())),
            recover_s=expect.get("recover_s"),
            recover_completed=expect.get("recover_completed"),
        ),
        at_s=record.get("at_s"),
        after=record.get("after"),
        trigger=_trigger(record, words.get("when") or {}, words.get("ttl"), bool(words.get("persist", False))),
    )


def _trigger(record: Mapping[str, Any], when: Mapping[str, Any], ttl_s: float | None, persist: bool) -> Trigger:
    lasts = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", record["do"].rpartition(" ")[2])
    # A fault whose symptom is lateness and that names no time lasts until it is healed.
    hold_s = math.inf if record["action"] == "hang" or record.get("symptom") == "mark:device.late" else 0.0
    if lasts:
        hold_s = float(lasts[1]) * {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}[lasts[2]]
    if persist:
        hold_s = math.inf
    return Trigger(
        skip=int(when.get("skip") or 0),
        times=int(when.get("times") or 1),
        interval=int(when.get("interval") or 1),
        probability=float(when.get("probability") or 1.0),
        for_s=when.get("for"),
        ttl_s=ttl_s,
        hold_s=hold_s,
        persist=persist,
    )


def loads_of(planned: Sequence[Mapping[str, Any]], written: Sequence[Mapping[str, Any]]) -> tuple[PlannedLoad, ...]:
    words = {each["id"]: each for each in written}
    return tuple(_load(each, words.get(each["id"], {})) for each in planned)


def _load(record: Mapping[str, Any], words: Mapping[str, Any]) -> PlannedLoad:
    malformed = float(words.get("malformed") or 0.0)
    cancelled = sum(float(each["share"]) for each in words.get("cancel") or ())
    stream = words.get("stream")
    return PlannedLoad(
        id=record["id"],
        group=words.get("group"),
        probe=bool(words.get("probe", False)),
        rate_mean=record.get("rate_mean"),
        rate_max=record.get("rate_max"),
        arrivals_planned=record.get("arrivals_planned"),
        period_s=record.get("period_s"),
        rate_min=_rate_min(words, record.get("rate_mean")),
        ramp_s=float(words.get("period") or 0.0) if words.get("arrivals") == "ramp" else 0.0,
        by_chance=words.get("arrivals") not in ("constant", "trace"),
        answered_share=max(0.0, 1 - malformed) * max(0.0, 1 - cancelled),
        malformed_share=malformed,
        cancelled_share=cancelled,
        stream_share=1.0 if stream is None else float(stream),
        output_tokens=_middle(words.get("output_tokens")),
        timeout_s=words.get("timeout"),
        arrival_counts=ArrivalCounts.read(record.get("arrivals_by_second")),
    )


def _rate_min(words: Mapping[str, Any], rate_mean: float | None) -> float | None:
    """The lowest rate of a load; 0 for a trace, which may pause."""
    if words.get("arrivals") == "trace":
        return 0.0
    rate = words.get("rate")
    return float(min(rate)) if isinstance(rate, Sequence) else rate_mean


def _middle(law: object) -> float | None:
    """The mean of a number or of [low, high]. A lognormal gives its median, which lies below its mean."""
    if isinstance(law, Mapping):
        law = (law.get("lognormal") or [None])[0]
    if isinstance(law, Sequence) and len(law) == 2:
        return (float(law[0]) + float(law[1])) / 2
    return float(law) if isinstance(law, int | float) else None
