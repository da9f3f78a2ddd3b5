"""The table of outcomes: a row for each load and outcome, and one sample of each bad outcome."""

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from assertions.history import Floats, Requests
from harness.report.figures import S_PER_NS, percentile
from harness.report.source import RunFiles

OUTCOMES = """ok refused cancelled timeout http_error inband_error truncated no_finish_reason malformed unfinished
dropped""".split()
"""The order of the table."""
GOOD = frozenset({"ok", "cancelled"})  # a planned cancel ended as planned


@dataclass(frozen=True)
class OutcomeRow:
    """One load and one outcome. Latencies are those of exactly these requests."""

    load: str
    kind: str
    outcome: str
    requests: int
    share: float  # share of all requests of this load and kind
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    e2e_p50_s: float | None
    e2e_p99_s: float | None


@dataclass(frozen=True)
class OutcomeSample:
    """One request with a bad outcome. `reply` is the start of the server's text, at most 4 KiB."""

    outcome: str
    load: str
    request: str
    sent_s: float | None
    http: int | None
    error: str | None
    reply: str | None


@dataclass(frozen=True)
class OutcomeTable:
    rows: tuple[OutcomeRow, ...]
    totals: tuple[tuple[str, int], ...]  # outcome -> requests of all loads
    samples: tuple[OutcomeSample, ...]
    requests: int


def ttft_s(requests: Requests) -> Floats:
    """Seconds from the intended time to the first token, as the judges count; shape [requests]."""
    return np.asarray((requests.first_ns - requests.intended_ns) * S_PER_NS, dtype=np.float64)


def e2e_s(requests: Requests) -> Floats:
    """Seconds from the intended time to the end; shape [requests]."""
    return np.asarray((requests.end_ns - requests.intended_ns) * S_PER_NS, dtype=np.float64)


def outcome_table(source: RunFiles) -> OutcomeTable:
    requests = source.history.requests
    groups: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    of_load: Counter[tuple[str, str]] = Counter()
    totals: Counter[str] = Counter()
    for row in range(len(requests)):
        load, kind, outcome = requests.load[row] or "?", requests.kind[row] or "load", requests.outcome[row] or "?"
        groups[load, kind, outcome].append(row)
        of_load[load, kind] += 1
        totals[outcome] += 1
    first_s, whole_s = ttft_s(requests), e2e_s(requests)
    rows = []
    for load, kind, outcome in sorted(groups, key=lambda key: (key[1] != "load", key[0], key[1], _rank(key[2]))):
        members = groups[load, kind, outcome]
        ttft, e2e = _ordered(first_s[members]), _ordered(whole_s[members])
        rows.append(
            OutcomeRow(
                load,
                kind,
                outcome,
                len(members),
                len(members) / of_load[load, kind],
                percentile(ttft, 0.5),
                percentile(ttft, 0.99),
                percentile(e2e, 0.5),
                percentile(e2e, 0.99),
            )
        )
    ranked = tuple(sorted(totals.items(), key=lambda item: _rank(item[0])))
    return OutcomeTable(tuple(rows), ranked, _samples(source, ranked), len(requests))


def _samples(source: RunFiles, totals: tuple[tuple[str, int], ...]) -> tuple[OutcomeSample, ...]:
    """The first request of each bad outcome, preferably one with a recorded body."""
    found = []
    for outcome, _ in totals:
        if outcome in GOOD:
            continue
        match outcome:
            case "dropped":
                where: tuple[str, tuple[str, ...]] = ("q.sent_ns IS NULL", ())
            case "unfinished":
                where = ("q.sent_ns IS NOT NULL AND r.outcome IS NULL", ())
            case _:
                where = ("q.sent_ns IS NOT NULL AND r.outcome = ?", (outcome,))
        rows = source.rows(
            f"""SELECT q.id, q.load, q.sent_ns, r.http, r.error, r.sample FROM request q
            LEFT JOIN reply r ON r.request = q.id WHERE {where[0]}
            ORDER BY r.sample IS NULL, q.intended_ns LIMIT 1""",  # noqa: S608 - the three texts above
            where[1],
        )
        for row in rows:
            sent_s = None if row["sent_ns"] is None else row["sent_ns"] * S_PER_NS
            found.append(
                OutcomeSample(outcome, row["load"], row["id"], sent_s, row["http"], row["error"], row["sample"])
            )
    return tuple(found)


def _ordered(values: Floats) -> list[float]:
    return [float(value) for value in np.sort(values[~np.isnan(values)])]


def _rank(outcome: str) -> tuple[int, str]:
    return (OUTCOMES.index(outcome) if outcome in OUTCOMES else len(OUTCOMES), outcome)
