"""The verdict of a run for a report: its state, and all judges, also those that were not judged."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from assertions.verdict import EXIT_CODES, Judged, Level, State, Verdict
from harness.report import figures
from harness.report.source import RunFiles

URGENCY = (State.FAIL, State.UNKNOWN, State.PASS, State.NOT_JUDGED)  # the order of every list of judges


@dataclass(frozen=True)
class VerdictSummary:
    """The verdict of the whole run. State and exit code are those of verdict.json and are not computed again."""

    state: State
    exit: int
    because: str | None  # the reason when no verdict could be read; the state is then UNKNOWN
    required: tuple[tuple[State, int], ...]  # counts of required judges, in the order of URGENCY
    observed: tuple[tuple[State, int], ...]  # counts of judges that are only shown


def read_verdict(source: RunFiles) -> tuple[Verdict | None, str | None]:
    """The verdict, or None and the reason."""
    if not source.verdict:
        return None, f"verdict.json: {dict(source.missing).get('verdict.json', 'empty')}"
    try:
        return Verdict.from_json(source.verdict), None
    except (KeyError, TypeError, ValueError) as problem:
        return None, f"verdict.json: not a verdict of this version ({type(problem).__name__}: {problem})"


def verdict_summary(verdict: Verdict | None, because: str | None, judges: tuple[Judged, ...]) -> VerdictSummary:
    required = Counter(judged.state for judged in judges if judged.level is Level.REQUIRED)
    observed = Counter(judged.state for judged in judges if judged.level is Level.OBSERVE)
    return VerdictSummary(
        state=verdict.state if verdict else State.UNKNOWN,
        exit=verdict.exit_code if verdict else EXIT_CODES[State.UNKNOWN],
        because=because,
        required=tuple((state, required[state]) for state in URGENCY if required[state]),
        observed=tuple((state, observed[state]) for state in URGENCY if observed[state]),
    )


def judges(verdict: Verdict | None, plan: Mapping[str, object]) -> tuple[Judged, ...]:
    """All judges, worst first and required before observed, with those that the plan marks as not judged."""
    rows = list(verdict.judges) if verdict else []
    said = {judged.name for judged in rows}
    planned = plan.get("judges")
    for entry in planned if isinstance(planned, list) else []:
        if entry["name"] not in said and entry["state"] == "not_judged":
            rows.append(
                Judged(
                    entry["name"],
                    State.NOT_JUDGED,
                    "",
                    Level(entry["level"]),
                    because=entry.get("because"),
                    to_decide=entry.get("cure"),
                )
            )
    return tuple(sorted(rows, key=lambda judged: (URGENCY.index(judged.state), judged.level is Level.OBSERVE)))


def title(judged: Judged) -> str:
    """The name of a judge, with a remark when its result is only shown."""
    return judged.name + (" (observed only)" if judged.level is Level.OBSERVE else "")


def word(state: State) -> str:
    """The state as text for people."""
    return state.replace("_", " ")


def details(judged: Judged) -> dict[str, str]:
    """The filled fields of a result under their titles, in the order of every output."""
    fields = {
        "limit": judged.limit,
        "observed": judged.observed,
        "interval": judged.interval,
        "can see": judged.smallest_visible,
        "because": judged.because,
        "to decide": judged.to_decide,
        "since": None if judged.since_ns is None else figures.at_ns(judged.since_ns),
        "fault": judged.fault,
        "owner": judged.owner,
    }
    return {name: value for name, value in fields.items() if value}


def anchor(name: str) -> str:
    """The fragment of report.html for a judge, as in `report.html#judge-leak.rss_anon`."""
    return "judge-" + "".join(letter if letter.isalnum() or letter in "._" else "-" for letter in name)
