"""summary.md: the report for a CI job's page, at most 200 kB.

Headings start at `###`, below the headings of the job.
"""

from collections.abc import Iterable, Sequence

from assertions.verdict import Judged, State
from harness.report import figures
from harness.report.judges import details, title, word
from harness.report.model import Report
from harness.report.outcomes import GOOD
from harness.report.sanitise import markdown as safe
from harness.report.sanitise import one_line

BYTES_MAX = 200_000
ROWS_MAX = 200  # rows of one table; the HTML page has all
EVIDENCE_SHOWN = 5
MARKS = {State.PASS: "🟢", State.FAIL: "🔴", State.UNKNOWN: "🟡", State.NOT_JUDGED: "⚪"}


def render(report: Report) -> str:
    parts = [_head(report)]
    parts += [_judge(judged) for judged in report.judges if judged.state in (State.FAIL, State.UNKNOWN)]
    passed = [judged for judged in report.judges if judged.state is State.PASS]
    if passed:
        rows = [(title(judged), judged.limit, judged.observed, judged.smallest_visible) for judged in passed]
        parts.append(folded(f"{len(passed)} passed", table(("judge", "limit", "observed", "smallest visible"), rows)))
    skipped = [judged for judged in report.judges if judged.state is State.NOT_JUDGED]
    if skipped:
        rows_3 = [(title(judged), judged.because, judged.to_decide) for judged in skipped]
        parts.append(folded(f"{len(skipped)} not judged", table(("judge", "because", "price"), rows_3)))
    parts += [_outcomes(report), _faults(report)]
    if report.missing:
        parts.append(folded(f"Missing data: {len(report.missing)}", table(("what", "why"), report.missing)))
    return bounded(parts)


def _head(report: Report) -> str:
    identity, verdict = report.identity, report.verdict
    said = ", ".join(f"{number} {word(state)}" for state, number in verdict.required) or "no result of a judge"
    shown = ", ".join(f"{number} {word(state)}" for state, number in verdict.observed)
    lines = [
        f"### {MARKS[verdict.state]} {word(verdict.state)}: {safe(identity.scenario)}",
        "",
        f"**{said}**" + (f" (only shown: {shown})" if shown else "") + f", exit {verdict.exit}",
        "",
    ]
    if verdict.because:
        lines += [f"No verdict: {safe(verdict.because)}", ""]
    lines += [
        f"A FAIL means: {safe(identity.means or 'the scenario does not say')}",
        "",
        f"seed {identity.seed} · commit {safe(identity.commit)} · run {safe(identity.run_id)}"
        f" · {figures.seconds(report.timeline.end_s)}",
        "",
        *([f"times are those of {safe(identity.costs)}", ""] if identity.costs else []),
        f"see it again: {_code(identity.replay)}",
    ]
    return "\n".join(lines)


def _judge(judged: Judged) -> str:
    lines = [f"#### {MARKS[judged.state]} {word(judged.state)} {safe(title(judged))}", ""]
    if judged.summary:
        lines += [safe(judged.summary), ""]
    lines += [f"- **{name}** {safe(value)}" for name, value in details(judged).items()]
    for item in judged.evidence[:EVIDENCE_SHOWN]:
        lines.append(f"- {figures.at_ns(item.t_ns)} {safe(item.request or '')} {safe(item.text)}")
    if len(judged.evidence) > EVIDENCE_SHOWN:
        lines.append(f"- and {len(judged.evidence) - EVIDENCE_SHOWN} more in verdict.json")
    return "\n".join(lines)


def _outcomes(report: Report) -> str:
    rows = [
        (
            row.load,
            row.outcome if row.outcome in GOOD else f"{row.outcome} !",
            figures.count(row.requests),
            figures.share(row.share),
            figures.seconds(row.ttft_p99_s),
            figures.seconds(row.e2e_p99_s),
        )
        for row in report.outcomes.rows
    ]
    if not rows:
        return "#### Outcomes\n\nNo request was recorded."
    totals = ", ".join(f"{outcome} {figures.count(number)}" for outcome, number in report.outcomes.totals)
    head = ("load", "outcome", "requests", "share", "TTFT p99", "E2E p99")
    return folded(f"{figures.count(report.outcomes.requests)} requests: {safe(totals)}", table(head, rows))


def _faults(report: Report) -> str:
    if not report.faults:
        return "#### Faults\n\nNo fault was planned or recorded."
    rows = [
        (
            fault.name,
            fault.do,
            figures.at(fault.arm_s) if fault.arm_s is not None else fault.state,
            figures.at(fault.first_s) if fault.first_s is not None else "never",
            f"{figures.at(fault.heal_s)} {fault.healed_by or ''}",
            f"{figures.count(fault.fired)} of {fault.fired_min}+",
            fault.symptom_seen,
            fault.recovery,
            f"{fault.requests_hit} + {fault.collateral}",
        )
        for fault in report.faults
    ]
    head = ("fault", "do", "armed", "first fire", "healed", "fired", "symptom", "recovery", "hit + collateral")
    return f"#### Faults\n\n{table(head, rows)}"


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], rows_max: int = ROWS_MAX, page: str = "report.html"
) -> str:
    """A GitHub table of at most `rows_max` rows, and a line that counts the rest and names the page that has them."""
    kept = [[safe(figures.MISSING if cell in (None, "") else cell) for cell in row] for row in rows]
    lines = [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *kept[:rows_max])]
    if len(kept) > rows_max:
        lines += ["", f"and {len(kept) - rows_max} more rows in {page}"]
    return "\n".join(lines)


def folded(summary: str, body: str) -> str:
    """A section that is closed until its reader opens it."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def bounded(parts: Sequence[str], page: str = "report.html") -> str:
    """The parts in order, as many as fit into BYTES_MAX. A part is never cut: no table or tag is left open."""
    text, note = "", f"\n\nMore did not fit into this summary: see {page}.\n"
    for part in parts:
        if len((text + "\n\n" + part + note).encode("utf-8", "backslashreplace")) > BYTES_MAX:
            return text + note
        text = f"{text}\n\n{part}" if text else part
    return text + "\n"


def _code(text: str) -> str:
    """A code span for any text: its fence is one backtick longer than the longest run in the text."""
    line = one_line(text)
    longest = max((len(run) for run in "".join(c if c == "`" else " " for c in line).split()), default=0)
    fence = "`" * (longest + 1)
    return f"{fence}{' ' if longest else ''}{line}{' ' if longest else ''}{fence}"
