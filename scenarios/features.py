"""Lists the features that a scenario uses, so that a drive can refuse by name what it does not support.

    unserved = [feature for feature in features(scenario) if feature.name not in SERVED]

A feature stands for a key that was written. A key with its default value is not listed, except where every run has one
(the drive, the kind of target, arrivals, victims).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, get_args

from pydantic import BaseModel

from scenarios.distributions import Lognormal
from scenarios.fault import Fault
from scenarios.load import Arrivals, Load
from scenarios.phases import Work
from scenarios.positions import Path
from scenarios.problems import show_path
from scenarios.schema import Scenario


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature at a path of the file. `where` is the path as text, such as `load[0].arrivals`."""

    name: str
    path: Path

    @property
    def where(self) -> str:
        return show_path(self.path)


def features(scenario: Scenario) -> list[Feature]:
    """All features of the scenario in the order of the file's tables, once for each place."""
    found = [Feature(f"drive.{scenario.drive}", ("drive",)), *_target(scenario), *_phases(scenario)]
    for index, load in enumerate(scenario.load):
        found += _load(load, ("load", index))
    found += _written(scenario.canary, "canary", ("canary",), ("every", "compared_min"))
    if scenario.canary.reference != "auto":
        found.append(Feature(f"canary.reference.{scenario.canary.reference}", ("canary", "reference")))
    for index, fault in enumerate(scenario.fault):
        found += _fault(fault, ("fault", index))
    found += _checks(scenario)
    found += _written(scenario.hang_up, "hang_up", ("hang_up",), ("tokens", "within"))
    found += _written(scenario.limits, "limits", ("limits",), LIMITS)
    found += [Feature("abort", ("abort", index)) for index in range(len(scenario.abort))]
    return found


LIMITS: Final = ("requests", "tokens", "rate", "in_flight", "wall", "disk")
TARGET: Final = ("command", "url", "model", "key_env", "metrics", "pid", "knobs", "groups", "ready_max")
GROUP: Final = ("guarantee", "hard", "soft", "priority", "key_env")
LOAD: Final = ("group", "priority", "shared_prefix", "stream", "malformed", "probe", "timeout", "in_flight_max")
TRACE: Final = ("time_scale", "token_scale", "loop", "gap_max")
WHEN: Final = ("at", "after", "every", "for", "skip", "times", "interval", "probability", "space")
SCOPE: Final = ("group", "session", "pool", "phase", "graph", "load")

# All names that `features` can give. The lists of the drives are checked against it, so that a typo is found.
NAMES: Final = frozenset(
    [f"drive.{word}" for word in ("live", "virtual")]
    + [f"target.{word}" for word in ("builtin", "command", "url", "metrics_preset.sglang")]
    + [f"target.{key}" for key in TARGET if key not in ("command", "url")]
    + [f"target.groups.{key}" for key in GROUP]
    + ["phases.trial.time", "phases.trial.completed", "quiesce", "phases.fresh"]
    + [f"load.arrivals.{word}" for word in get_args(Arrivals)]
    + [f"load.{key}" for key in LOAD]
    + [f"load.trace.{key}" for key in TRACE]
    + ["load.tokens.lognormal"]
    + [f"load.cancel.{stage}" for stage in ("queued", "prefill", "token", "after")]
    + ["canary.every", "canary.compared_min", "canary.reference.exact", "canary.reference.self"]
    + [f"fault.place.{word}" for word in ("before", "after", "in_flight")]
    + [f"fault.when.{key}" for key in WHEN]
    + [f"fault.scope.{key}" for key in SCOPE]
    + ["fault.persist", "fault.ttl", "fault.recover.completed", "fault.expect.marks"]
    + [f"fault.victims.{word}" for word in ("hit", "scope", "all")]
    + ["check.load", "check.group", "check.where.all", "check.where.outside", "check.where.fault", "check.observe"]
    + ["hang_up.tokens", "hang_up.within"]
    + [f"limits.{key}" for key in LIMITS]
    + ["abort"]
)


def _target(scenario: Scenario) -> Iterator[Feature]:
    target = scenario.target
    yield Feature(f"target.{target.kind}", ("target", "kind"))
    if target.metrics_preset != "vllm":
        yield Feature(f"target.metrics_preset.{target.metrics_preset}", ("target", "metrics_preset"))
    yield from _written(target, "target", ("target",), tuple(key for key in TARGET if key not in ("command", "url")))
    for index, group in enumerate(target.groups):
        yield from _written(group, "target.groups", ("target", "groups", index), GROUP)


def _phases(scenario: Scenario) -> Iterator[Feature]:
    counted = isinstance(scenario.phases.trial, Work)
    yield Feature("phases.trial.completed" if counted else "phases.trial.time", ("phases", "trial"))
    if scenario.phases.quiesce is not None:
        yield Feature("quiesce", ("phases", "quiesce"))
    if scenario.phases.fresh:
        yield Feature("phases.fresh", ("phases", "fresh"))


def _load(load: Load, path: Path) -> Iterator[Feature]:
    yield Feature(f"load.arrivals.{load.arrivals}", (*path, "arrivals"))
    yield from _written(load, "load", path, LOAD)
    if load.trace is not None:
        yield from _written(load.trace, "load.trace", (*path, "trace"), TRACE)
    for key in ("prompt_tokens", "output_tokens"):
        if isinstance(getattr(load, key), Lognormal):
            yield Feature("load.tokens.lognormal", (*path, key))
    for index, cancel in enumerate(load.cancel):
        yield Feature(f"load.cancel.{cancel.at.split()[0]}", (*path, "cancel", index, "at"))


def _fault(fault: Fault, path: Path) -> Iterator[Feature]:
    yield Feature(f"fault.place.{fault.place}", (*path, "place"))
    yield from _written(fault.when, "fault.when", (*path, "when"), WHEN)
    yield from _written(fault.scope, "fault.scope", (*path, "scope"), SCOPE)
    yield from _written(fault, "fault", path, ("persist",))
    if "ttl" in fault.model_fields_set:
        yield Feature("fault.ttl", (*path, "ttl"))
    yield from _written(fault.expect, "fault.expect", (*path, "expect"), ("marks",))
    yield Feature(f"fault.victims.{fault.expect.victims}", (*path, "expect", "victims"))
    if isinstance(fault.expect.recover, BaseModel):
        yield Feature("fault.recover.completed", (*path, "expect", "recover"))


def _checks(scenario: Scenario) -> Iterator[Feature]:
    for index, check in enumerate(scenario.check):
        path: Path = ("check", index)
        yield from _written(check, "check", path, ("load", "group"))
        where = check.where if check.where in ("outside", "all") else "fault"
        yield Feature(f"check.where.{where}", (*path, "where"))
        if check.level == "observe":
            yield Feature("check.observe", (*path, "level"))


def _written(table: BaseModel, name: str, path: Path, keys: tuple[str, ...]) -> Iterator[Feature]:
    """Features of the keys whose value is not the default."""
    for field_name, field in type(table).model_fields.items():
        key = field.alias or field_name
        if key not in keys:
            continue
        value = getattr(table, field_name)
        default = {} if field.default_factory is dict else field.default
        if value != default:
            yield Feature(f"{name}.{key}", (*path, key))
