"""junit.xml: a suite is one run of a scenario, a case is one judge.

A required FAIL is a failure and a required UNKNOWN an error, because both need a person; whatever is only shown, or was
not judged, is skipped with its text. So a CI server's red and green agree with the exit code.
"""

import xml.etree.ElementTree as ET

from assertions.verdict import Judged, Level, State
from harness.report import figures
from harness.report.model import Report
from harness.report.sanitise import xml as safe

NO_VERDICT = "verdict"  # the one case of a run that nobody judged


def render(report: Report) -> str:
    identity = report.identity
    suite = ET.Element("testsuite", name=safe(identity.scenario))
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(report):
        ET.SubElement(properties, "property", name=name, value=safe(value))
    cases = [_case(suite, identity.scenario, judged) for judged in report.judges]
    if report.standing.because:
        case = ET.SubElement(
            suite, "testcase", classname=f"seatrial.{safe(identity.scenario)}", name=NO_VERDICT, time="0"
        )
        ET.SubElement(case, "error", type="UNKNOWN", message=safe(report.standing.because))
        cases.append("error")
    totals = {
        "tests": str(len(cases)),
        "failures": str(cases.count("failure")),
        "errors": str(cases.count("error")),
        "skipped": str(cases.count("skipped")),
        "time": f"{report.timeline.end_s:.3f}",
    }
    suite.attrib |= totals
    if report.surroundings.started:
        suite.set("timestamp", report.surroundings.started.removesuffix(" UTC").replace(" ", "T"))
    root = ET.Element("testsuites", {"name": "seatrial", **totals})
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _properties(report: Report) -> list[tuple[str, object]]:
    identity = report.identity
    return [
        ("seed", figures.MISSING if identity.seed is None else identity.seed),
        ("commit", identity.commit or "not recorded"),
        ("run", identity.run_id),
        ("verdict", report.standing.state),
        ("exit", report.standing.exit),
        ("means", identity.means),
        ("replay", identity.replay),
        ("faults", " ".join(fault.name for fault in report.faults) or "none"),
        ("requests", report.outcomes.requests),
        *((f"outcome.{outcome}", number) for outcome, number in report.outcomes.totals),
    ]


def _case(suite: ET.Element, scenario: str, judged: Judged) -> str:
    """Add one case; returns its kind: passed, failure, error or skipped."""
    case = ET.SubElement(suite, "testcase", classname=f"seatrial.{safe(scenario)}", name=safe(judged.name), time="0")
    kind, message = _kind(judged)
    if kind != "passed":
        ET.SubElement(case, kind, type=str(judged.state), message=safe(message)).text = safe(_body(judged))
    return kind


def _kind(judged: Judged) -> tuple[str, str]:
    said = judged.summary or judged.because or ""
    if judged.state is State.NOT_JUDGED:
        return "skipped", f"not judged: {judged.because or said} ({judged.to_decide or 'no price given'})"
    if judged.level is Level.OBSERVE:
        return "skipped", f"observed only, {judged.state}: {said}"
    match judged.state:
        case State.FAIL:
            return "failure", " ".join(text for text in (said, judged.observed and f"({judged.observed})") if text)
        case State.UNKNOWN:
            return "error", f"UNKNOWN: {judged.because or said}"
    return "passed", ""


def _body(judged: Judged) -> str:
    rows = (
        ("limit", judged.limit),
        ("observed", judged.observed),
        ("interval", judged.interval),
        ("can see", judged.smallest_visible),
        ("because", judged.because),
        ("to decide", judged.to_decide),
        ("fault", judged.fault),
        ("owner", judged.owner),
    )
    lines = [f"{name:<10} {value}" for name, value in rows if value]
    lines += [
        f"{figures.at(None if e.t_ns is None else e.t_ns / 1e9)} {e.request or ''} {e.text}" for e in judged.evidence
    ]
    return "\n".join(lines)
