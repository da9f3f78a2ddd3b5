"""junit.xml: a suite is one run of a scenario, a case is one judge.

A required FAIL is a failure and a required UNKNOWN is an error. Judges that are only shown, or were not judged, are
skipped with their text. The result in a CI server therefore agrees with the exit code.
"""

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence

from assertions.verdict import Judged, Level, State
from harness.report import figures
from harness.report.judges import details
from harness.report.model import Report
from harness.report.sanitise import clean

NO_VERDICT = "verdict"  # the only case of a run without a verdict


def render(report: Report) -> str:
    suite = Suite(report.identity.scenario, _properties(report))
    for judged in report.judges:
        suite.judged(judged)
    if report.verdict.because:
        suite.case(NO_VERDICT, "error", State.UNKNOWN, report.verdict.because)
    suite.close(report.timeline.end_s, report.environment.started)
    return document("seatrial", [suite])


class Suite:
    """One run of a scenario. Call `close` after its last case."""

    def __init__(self, scenario: str, properties: Iterable[tuple[str, object]]) -> None:
        self.element = ET.Element("testsuite", name=clean(scenario))
        self.kinds: list[str] = []
        self.took_s = 0.0
        self._classname = f"seatrial.{clean(scenario)}"
        inner = ET.SubElement(self.element, "properties")
        for name, value in properties:
            ET.SubElement(inner, "property", name=name, value=clean(value))

    def judged(self, judged: Judged) -> None:
        """Add the case of one judge."""
        kind, message = _kind(judged)
        self.case(judged.name, kind, judged.state, message, _body(judged))

    def case(self, name: str, kind: str, state: State, message: str, body: str = "") -> None:
        """Add a case. `kind` is passed, failure, error or skipped."""
        self.kinds.append(kind)
        case = ET.SubElement(self.element, "testcase", classname=self._classname, name=clean(name), time="0")
        if kind != "passed":
            ET.SubElement(case, kind, type=str(state), message=clean(message)).text = clean(body) or None

    def close(self, took_s: float, started: str | None) -> None:
        """Set totals and start time. `started` is UTC, with " UTC" at its end or in ISO 8601."""
        self.took_s = took_s
        self.element.attrib |= _totals(self.kinds, took_s)
        if started:
            self.element.set("timestamp", started.removesuffix(" UTC").removesuffix("+00:00").replace(" ", "T"))


def document(name: str, suites: Sequence[Suite]) -> str:
    """The complete file."""
    kinds = [kind for suite in suites for kind in suite.kinds]
    root = ET.Element("testsuites", {"name": clean(name), **_totals(kinds, sum(suite.took_s for suite in suites))})
    root.extend(suite.element for suite in suites)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _totals(kinds: Sequence[str], took_s: float) -> dict[str, str]:
    return {
        "tests": str(len(kinds)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": str(kinds.count("skipped")),
        "time": f"{took_s:.3f}",
    }


def _properties(report: Report) -> list[tuple[str, object]]:
    identity = report.identity
    return [
        ("seed", identity.seed),
        ("commit", identity.commit),
        ("run", identity.run_id),
        ("verdict", report.verdict.state),
        ("exit", report.verdict.exit),
        ("means", identity.means),
        ("replay", identity.replay),
        *([("costs", identity.costs)] if identity.costs else []),
        ("faults", " ".join(fault.name for fault in report.faults) or "none"),
        ("requests", report.outcomes.requests),
        *((f"outcome.{outcome}", number) for outcome, number in report.outcomes.totals),
    ]


def _kind(judged: Judged) -> tuple[str, str]:
    said = judged.summary or judged.because or ""
    if judged.state is State.NOT_JUDGED:
        price = f" ({judged.to_decide})" if judged.to_decide else ""
        return "skipped", f"not judged: {(judged.because or said).removeprefix('not judged: ')}{price}"
    if judged.level is Level.OBSERVE:
        return "skipped", f"observed only, {judged.state}: {said}"
    match judged.state:
        case State.FAIL:
            return "failure", " ".join(text for text in (said, judged.observed and f"({judged.observed})") if text)
        case State.UNKNOWN:
            return "error", f"UNKNOWN: {judged.because or said}"
    return "passed", ""


def _body(judged: Judged) -> str:
    lines = [f"{name:<10} {value}" for name, value in details(judged).items()]
    lines += [f"{figures.at_ns(item.t_ns)} {item.request or ''} {item.text}" for item in judged.evidence]
    return "\n".join(lines)
