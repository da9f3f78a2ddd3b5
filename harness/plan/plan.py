"""The plan of a run: every decision made before the run starts, in one record that is written as plan.json."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from assertions.judge import Need, NeedState, needs
from assertions.plan_view import PlanView
from faults import Catalogue, SpecError, resolve
from harness.plan.canary import CanaryConfig
from harness.plan.cost import Cost, exceeded_limits
from harness.plan.occurrences import Occurrence, occurrences
from harness.plan.server_config import server_tables
from harness.plan.support import LIVE, LIVE_ONLY, refused_fault, unsupported
from harness.plan.timeline import LOADED, PlannedPhase, timeline, trial_s
from harness.provenance import Provenance
from runtime.config import ConfigProblems
from scenarios.arrivals import Forecast, forecast
from scenarios.fault import Completed
from scenarios.problems import Problem, ScenarioProblems
from scenarios.read import Document
from scenarios.schema import Scenario
from scenarios.traces import by_second

CAPABILITIES = {
    "builtin": ("arm", "ledger", "kv_live", "pid", "exact"),
    "command": ("pid",),
    "url": (),
}

KNOWN_TIMES, KNOWN_MAX_S = 4, 100_000
"""The arrivals of a trace are counted for KNOWN_TIMES the planned time of the load, at most KNOWN_MAX_S seconds."""


@dataclass(frozen=True)
class Plan:
    """A checked plan. `needs` is filled last, because the judges read the rest of the plan."""

    run_id: str
    provenance: Provenance
    scenario: Scenario
    catalogue: Catalogue
    capabilities: tuple[str, ...]
    phases: tuple[PlannedPhase, ...]
    occurrences: tuple[Occurrence, ...]
    forecasts: dict[str, Forecast]
    by_second: dict[str, list[int]]
    """Arrivals of each trace load in every second of load time. It reaches beyond the planned end, so that a cure can
    say how much longer a trial must be."""
    cost: Cost
    needs: tuple[Need, ...] = ()

    @property
    def replay(self) -> str:
        """The command that repeats this run."""
        return f"seatrial replay {self.run_id}"

    def to_json(self) -> dict[str, Any]:
        """The content of plan.json. Times are in seconds, sizes in bytes."""
        plain = self.scenario.model_dump(mode="json", by_alias=True)
        return {
            "plan": 1,
            "run_id": self.run_id,
            **asdict(self.provenance),
            "seed": self.scenario.seed,
            "replay": self.replay,
            "scenario": plain,
            "target": {
                "kind": self.scenario.target.kind,
                "url": self.scenario.target.url,
                "capabilities": list(self.capabilities),
            },
            "phases": [asdict(phase) | {"planned_s": _planned_s(phase)} for phase in self.phases],
            "faults": [self._fault(each) for each in self.occurrences],
            "judges": [_judge(**asdict(need)) for need in self.needs],
            "load": [self._load(load.id) for load in self.scenario.load],
            "cost": asdict(self.cost),
        }

    def write(self, path: Path) -> None:
        """Write plan.json."""
        path.write_text(json.dumps(self.to_json(), indent=1) + "\n")

    def _fault(self, occurrence: Occurrence) -> dict[str, Any]:
        spec = occurrence.spec
        fault = next(each for each in self.scenario.fault if each.id == spec.id)
        action = self.catalogue.get(spec.do.point).action(spec.do.action)
        recover = fault.expect.recover
        return {
            "id": spec.id,
            "n": spec.n,
            "at_s": occurrence.at_s,
            "after": occurrence.after,
            "do": str(spec.do),
            "point": spec.do.point,
            "action": spec.do.action,
            "symptom": action.symptom,
            "severity": str(action.severity),
            "scope": fault.scope.model_dump(mode="json"),
            "persist": spec.persist,
            "fired_min": spec.fired_min,
            "expect": {
                "outcomes": list(fault.expect.outcomes),
                "victims": fault.expect.victims,
                "marks": list(fault.expect.marks),
                "recover_s": None if isinstance(recover, Completed) else recover,
                "recover_completed": recover.completed if isinstance(recover, Completed) else None,
            },
        }

    def _load(self, load_id: str) -> dict[str, Any]:
        expected = self.forecasts[load_id]
        planned = None if expected.requests is None else round(expected.requests)
        return {
            "id": load_id,
            "rate_mean": expected.rate_mean,
            "rate_max": expected.rate_max,
            "arrivals_planned": planned,
            "period_s": expected.period_s,
            # One string: as a list, indented JSON would need one line for each of 30,000 seconds.
            "arrivals_by_second": " ".join(map(str, self.by_second[load_id])) if load_id in self.by_second else None,
        }


def make(document: Document, catalogue: Catalogue, run_id: str, provenance: Provenance) -> Plan:
    """Make the plan of a scenario. Raises ScenarioProblems with every feature, fault and check that is refused."""
    scenario = document.scenario
    phases = timeline(scenario)
    planned = occurrences(scenario, trial_s(phases))
    load_s = sum(phase.planned_s for phase in phases if phase.name in LOADED)
    forecasts = {load.id: forecast(load, (0.0, load_s)) for load in scenario.load}
    known_s = min(math.ceil(load_s * KNOWN_TIMES), KNOWN_MAX_S)
    cost = _cost(phases, forecasts, load_s / scenario.canary.every)
    problems = [*_refused_features(document), *_refused_knobs(document), *_refused_faults(document, planned, catalogue)]
    problems += [
        document.source.problem(("limits", name), rule, remedy)
        for name, rule, remedy in exceeded_limits(scenario.limits, cost, list(forecasts.values()))
    ]
    if problems:
        raise ScenarioProblems(problems)
    plan = Plan(
        run_id=run_id,
        provenance=provenance,
        scenario=scenario,
        catalogue=catalogue,
        capabilities=_capabilities(scenario),
        phases=phases,
        occurrences=tuple(planned),
        forecasts=forecasts,
        by_second={load.id: by_second(load, known_s) for load in scenario.load if load.trace is not None},
        cost=cost,
    )
    found = needs(PlanView.from_plan(plan.to_json()))
    refused = [_refused_check(document, need) for need in found if need.state is NeedState.REFUSED]
    if refused:
        raise ScenarioProblems(refused)
    return replace(plan, needs=tuple(found))


def _capabilities(scenario: Scenario) -> tuple[str, ...]:
    found = [word for word in CAPABILITIES[scenario.target.kind] if word != "pid" or scenario.drive == "live"]
    if scenario.target.pid is not None:
        found.append("pid")
    if scenario.target.metrics is not None:
        found.append("metrics")
    return tuple(found)


def _refused_features(document: Document) -> list[Problem]:
    found = []
    for feature in unsupported(document.scenario):
        when, remedy = ("in virtual time", f"{LIVE}, or ") if feature.name in LIVE_ONLY else ("yet", "")
        found.append(
            document.source.problem(feature.path, f"{feature.name} is not supported {when}", f"{remedy}leave it out")
        )
    return found


def _refused_knobs(document: Document) -> list[Problem]:
    target = document.scenario.target
    if target.kind != "builtin":
        return []
    try:
        server_tables(target)
    except ConfigProblems as error:
        return [document.source.problem(("target", "knobs"), text) for text in error.problems]
    if document.scenario.drive == "virtual" and target.knobs.get("kv_blocks") == 0:
        rule = "kv_blocks = 0 depends on this machine's memory, and a virtual run must be equal on every machine"
        return [document.source.problem(("target", "knobs", "kv_blocks"), rule, f"give a number, or {LIVE}")]
    return []


def _refused_faults(document: Document, planned: Sequence[Occurrence], catalogue: Catalogue) -> list[Problem]:
    """The problems of each fault; every fault is a problem when faults can't be armed in the target."""
    scenario, problems = document.scenario, []
    first = {occurrence.spec.id: occurrence.spec for occurrence in reversed(planned)}
    for index, fault in enumerate(scenario.fault):
        at = ("fault", index, "do")
        if "arm" not in CAPABILITIES[scenario.target.kind]:
            rule = f"{fault.do} needs the built-in runtime, and target.kind is {scenario.target.kind}"
            problems.append(document.source.problem(at, rule, 'use target.kind = "builtin", or leave the fault out'))
            continue
        try:
            resolve([first[fault.id]], catalogue)
        except SpecError as error:
            for text in error.problems:
                rule = text.removeprefix(f'fault "{fault.id}": ')
                problems.append(document.source.problem(("fault", index, *_key_of(rule)), rule))
            continue
        if (refused := refused_fault(scenario, fault, catalogue)) is not None:
            problems.append(document.source.problem(at, f"{fault.do}: {refused[0]}", refused[1]))
    return problems


def _key_of(rule: str) -> tuple[str, ...]:
    """The key of the fault that the rule is about, such as ("scope", "pool")."""
    key = rule.partition(":")[0].partition(" ")[0]
    return tuple(key.split(".")) if key.startswith(("scope", "place")) else ("do",)


def _refused_check(document: Document, need: Need) -> Problem:
    named = need.judge.partition(" [")[0]
    index = next((at for at, check in enumerate(document.scenario.check) if check.that in (named, need.judge)), 0)
    rule = f"this check can't be decided: {need.because}"
    return document.source.problem(("check", index, "that"), rule, need.cure or "")


def _cost(phases: tuple[PlannedPhase, ...], forecasts: dict[str, Forecast], canaries: float) -> Cost:
    def total(values: list[float | None]) -> float | None:
        return None if None in values else sum(value for value in values if value is not None)

    seen, canary = list(forecasts.values()), CanaryConfig()
    return Cost(
        requests=total([canaries, *(one.requests for one in seen)]),
        prompt_tokens=total([canaries * canary.prompt_tokens, *(one.prompt_tokens for one in seen)]),
        output_tokens=total([canaries * canary.output_tokens, *(one.output_tokens for one in seen)]),
        wall_s=sum(phase.planned_s for phase in phases),
        wall_s_max=sum(phase.max_s for phase in phases),
    )


def _planned_s(phase: PlannedPhase) -> float | None:
    """The planned time of a phase; None for a trial that is counted in replies, which has no planned time."""
    return None if phase.completed is not None and phase.name == "trial" else phase.planned_s


def _judge(judge: str, **answer: Any) -> dict[str, Any]:
    return {"name": judge, **answer}
