"""The plan as text of at most 80 columns: target, phases, load, faults, cost, and the checks that can't be judged."""

import re
import shlex
import textwrap
from collections.abc import Iterator

from assertions.judge import NeedState
from harness.plan.plan import Plan

COLUMNS = 80
_UNIT = re.compile(r"(\d) (?=(?:s|ms|%|replies|requests|tokens)\b)")


def describe(plan: Plan, costs: str | None = None) -> Iterator[str]:
    """Yield the lines for `seatrial plan` and for the start of a run. `costs` describes a virtual run's cost table."""
    scenario = plan.scenario
    command = shlex.join(scenario.target.command)
    target = scenario.target.url or (f"`{command}`" if command else "the built-in runtime")
    time = "in virtual time" if scenario.drive == "virtual" else "in real time"
    yield from _wrapped(f"{scenario.name}: ", f"{target}, seed {scenario.seed}, {time}")
    yield from _wrapped("FAIL means: ", scenario.means)
    yield from _wrapped("phases: ", ", ".join(_phase(plan, at) for at in range(len(plan.phases))))
    for load in plan.scenario.load:
        expected = plan.forecasts[load.id]
        rate = "as fast as the target replies"
        if expected.rate_mean is not None:
            rate = f"{expected.rate_mean:.3g} requests/s on average, at most {expected.rate_max:.3g}/s"
        yield from _wrapped(f"load {load.id}: ", f"{load.arrivals}, {rate}")
    for occurrence in plan.occurrences:
        when = f"after {occurrence.after}" if occurrence.after else f"{occurrence.at_s:g} s into the trial"
        lasting = ", until healed, also after a restart" if occurrence.spec.persist else ""
        yield from _wrapped(
            f"fault {occurrence.spec.id}#{occurrence.spec.n}: ", f"{occurrence.spec.do}, {when}{lasting}"
        )
    yield from _wrapped("cost: ", _cost(plan))
    if costs is not None:
        yield from _wrapped("device: ", costs)
    notes = [need for need in plan.needs if need.state is NeedState.PLANNED and need.note]
    for need in notes:
        yield from _wrapped(f"judge {need.judge}: ", need.note or "")
    absent: dict[tuple[str | None, str | None], list[str]] = {}
    for need in plan.needs:
        if need.state is NeedState.NOT_JUDGED:
            absent.setdefault((need.because, need.cure), []).append(need.judge)
    for (because, cure), names in absent.items():
        yield from _wrapped("not judged: ", f"{', '.join(names)} ({because}: {cure})")


def _phase(plan: Plan, at: int) -> str:
    phase = plan.phases[at]
    name = f"{phase.name} {phase.n}" if phase.name in ("trial", "quiesce") and phase.n else phase.name
    if phase.completed is not None:
        return f"{name} {phase.completed} good replies (at most {phase.max_s:g} s)"
    return f"{name} {'up to ' if phase.name in ('quiesce', 'drain') else ''}{phase.max_s:g} s"


def _cost(plan: Plan) -> str:
    cost = plan.cost
    if cost.requests is None:
        return f"about {cost.wall_s:.0f} s; the number of requests depends on the target's speed"
    tokens = (cost.prompt_tokens or 0.0) + (cost.output_tokens or 0.0)
    wall = f"{cost.wall_s:,.0f} s (at most {cost.wall_s_max:,.0f} s)"
    return f"about {cost.requests:,.0f} requests, {tokens:,.0f} tokens, {wall}"


def _wrapped(lead: str, text: str) -> list[str]:
    """Wrap at COLUMNS; a number stays on the line of its unit."""
    whole = _UNIT.sub("\\1\N{NO-BREAK SPACE}", lead + text)
    lines = textwrap.wrap(whole, COLUMNS, subsequent_indent="  ", break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]
