"""Rules between keys of a scenario. `broken_rules` yields each broken rule with its path."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from faults.spec import DEFAULT_GROUP, did_you_mean
from scenarios import metrics, rules_fault, rules_load, rules_target
from scenarios.expr import parse_condition
from scenarios.load import Load
from scenarios.phases import Work
from scenarios.positions import Path
from scenarios.pydantic_errors import BrokenRule
from scenarios.schema import Scenario
from scenarios.traces import TraceFolders, TraceProblem, sniff


@dataclass(frozen=True)
class KnownNames:
    """Names that only the runtime knows: fault points with their actions, and marks.

    `marks` is None when they are not checked, as for a foreign runtime.
    """

    points: Mapping[str, Collection[str]] = field(default_factory=dict)
    marks: Collection[str] | None = None


def broken_rules(
    scenario: Scenario, known: KnownNames | None, folders: TraceFolders | None, trace_files: dict[int, str]
) -> Iterator[BrokenRule]:
    """All broken rules. `trace_files` is filled with the path of the trace of each load, by its index."""
    yield from _unique(scenario)
    yield from _references(scenario)
    yield from rules_target.broken_rules(scenario)
    for index, load in enumerate(scenario.load):
        yield from rules_load.broken_rules(load, ("load", index))
    yield from _phases(scenario)
    yield from rules_fault.broken_rules(scenario)
    yield from _checks(scenario)
    if known is not None:
        yield from _names(scenario, known)
    if folders is not None:
        yield from _traces(scenario, folders, trace_files)


def _unique(scenario: Scenario) -> Iterator[BrokenRule]:
    tables: tuple[tuple[Path, str, list[str]], ...] = (
        (("load",), "id", [load.id for load in scenario.load]),
        (("fault",), "id", [fault.id for fault in scenario.fault]),
        (("target", "groups"), "name", [group.name for group in scenario.target.groups]),
    )
    for path, key, names in tables:
        for index, name in enumerate(names):
            if name in names[:index]:
                first = names.index(name)
                yield BrokenRule(
                    (*path, index, key),
                    f'"{name}" is already the {key} of {path[-1]}[{first}]',
                    "give it another",
                    about=((*path, first, key),),
                )


def _references(scenario: Scenario) -> Iterator[BrokenRule]:
    """References to a load or group must name an existing one."""
    loads = [load.id for load in scenario.load]
    load_paths: tuple[Path, ...] = tuple(("load", index, "id") for index in range(len(loads)))
    groups = [group.name for group in scenario.target.groups]
    group_paths: tuple[Path, ...] = (
        ("target",),
        ("target", "groups"),
        *(("target", "groups", index, "name") for index in range(len(groups))),
    )
    used_loads: list[tuple[Path, str | None]] = []
    used_groups: list[tuple[Path, str | None]] = []
    for index, load in enumerate(scenario.load):
        if "group" in load.model_fields_set:
            used_groups.append((("load", index, "group"), load.group))
    for index, fault in enumerate(scenario.fault):
        used_loads.append((("fault", index, "scope", "load"), fault.scope.load))
        used_groups.append((("fault", index, "scope", "group"), fault.scope.group))
    for index, check in enumerate(scenario.check):
        used_loads.append((("check", index, "load"), check.load))
        used_groups.append((("check", index, "group"), check.group))
    for path, name in used_loads:
        if name and name not in loads:
            yield _missing(path, "load", name, loads, load_paths)
    if groups or scenario.target.kind == "builtin":
        allowed = groups or [DEFAULT_GROUP]
        for path, name in used_groups:
            if name and name not in allowed:
                yield _missing(path, "target.groups name", name, allowed, group_paths)


def _missing(path: Path, kind: str, name: str, known: Collection[str], about: tuple[Path, ...]) -> BrokenRule:
    return BrokenRule(path, f'no {kind} "{name}"', did_you_mean(name, known), about=about)


def _phases(scenario: Scenario) -> Iterator[BrokenRule]:
    phases = scenario.phases
    trial_path: Path = ("phases", "trial")
    if phases.quiesce is not None and isinstance(phases.trial, float) and phases.quiesce.every >= phases.trial:
        yield BrokenRule(
            ("phases", "quiesce", "every"),
            "the trial ends before the first quiesce",
            "shorten every, or leave quiesce out",
            about=(trial_path,),
        )
    if not any(_completes(load) for load in scenario.load):
        what = trial_path if isinstance(phases.trial, Work) else ("phases", "warmup")
        yield BrokenRule(
            what,
            "it is counted in completed requests, and no load completes any",
            "add a load without cancel = 1",
            about=tuple(("load", index, key) for index in range(len(scenario.load)) for key in ("cancel", "malformed")),
        )


def _completes(load: Load) -> bool:
    cancelled = sum(cancel.share for cancel in load.cancel)
    return load.malformed < 1 and abs(cancelled - 1) > 1e-9  # above 1 is another rule's


def _checks(scenario: Scenario) -> Iterator[BrokenRule]:
    fault_ids = [fault.id for fault in scenario.fault]
    fault_paths: tuple[Path, ...] = tuple(("fault", index, "id") for index in range(len(fault_ids)))
    probes = [load.id for load in scenario.load if load.probe]
    for index, check in enumerate(scenario.check):
        path: Path = ("check", index)
        if check.load and check.group:
            yield BrokenRule((*path, "group"), "a check names a load or a group, not both", "leave one out")
        places = ("outside", "all", *fault_ids)
        if check.where not in places:
            cure = did_you_mean(check.where, places)
            yield BrokenRule((*path, "where"), f'no fault "{check.where}"', cure, about=fault_paths)
        metric = metrics.METRICS[parse_condition(check.that).metric]
        for key in ("load", "group"):
            if getattr(check, key) and not metric.of_load:
                yield BrokenRule(
                    (*path, key),
                    f"{metric.name} belongs to the whole run, not to a {key}",
                    f"leave {key} out",
                    about=((*path, "that"),),
                )
        if metric.name.startswith("drift.") and check.load not in probes:
            cure = (
                f'write load = "{probes[0]}"'
                if probes
                else 'add { id = "probe", probe = true, rate = "0.5/s" } to load'
            )
            where: Path = (*path, "load") if check.load else (*path, "that")
            loads: tuple[Path, ...] = tuple(("load", at, "probe") for at in range(len(scenario.load)))
            about: tuple[Path, ...] = ((*path, "load"), (*path, "that"), *loads)
            yield BrokenRule(where, "drift is judged on a probe stream", cure, about)


def _names(scenario: Scenario, known: KnownNames) -> Iterator[BrokenRule]:
    for index, fault in enumerate(scenario.fault):
        path: Path = ("fault", index, "do")
        do = fault.do
        if do.point not in known.points:
            yield BrokenRule(
                path, f'no point "{do.point}"', did_you_mean(do.point, known.points) + " (seatrial faults)"
            )
        elif do.action not in known.points[do.point]:
            actions = known.points[do.point]
            yield BrokenRule(path, f'{do.point} has no action "{do.action}"', did_you_mean(do.action, actions))
        for number, mark in enumerate(fault.expect.marks):
            if known.marks is not None and mark not in known.marks:
                yield BrokenRule(
                    ("fault", index, "expect", "marks", number), f'no mark "{mark}"', did_you_mean(mark, known.marks)
                )


def _traces(scenario: Scenario, folders: TraceFolders, trace_files: dict[int, str]) -> Iterator[BrokenRule]:
    for index, load in enumerate(scenario.load):
        if load.trace is None:
            continue
        path: Path = ("load", index, "trace", "file")
        found = folders.find(load.trace.file)
        if found is None:
            looked = ", ".join(str(each) for each in folders.candidates(load.trace.file))
            cure = "put it there, or set SEATRIAL_DATA to its folder"
            yield BrokenRule(path, f"no such trace; looked for {looked}", cure)
            continue
        try:
            sniff(found)
            trace_files[index] = str(found)
        except TraceProblem as problem:
            yield BrokenRule(path, f"not a trace we read: {problem}", "Azure LLM inference CSV or Mooncake JSONL")
