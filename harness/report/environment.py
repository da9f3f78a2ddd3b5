"""The environment section of a report: audits with owners, sensors, events, marks and the machine."""

import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from harness.report.figures import S_PER_NS
from harness.report.series import samples
from harness.report.source import RunFiles

AUDITS_SHOWN_MAX = 60
DETAIL_CHARS_MAX = 4096
LOAD_NOISE = frozenset({"load.lateness_ms_p99", "load.lateness_ms_max", "load.dropped", "load.in_flight"})


@dataclass(frozen=True)
class AuditRow:
    """One audited quantity. When `value` differs from `expected`, `owner` holds what was not returned."""

    t_s: float
    scope: str
    name: str
    kind: str  # live | cached | reclaimable | limbo
    owner: str | None
    value: float
    expected: float | None
    unit: str | None
    history: str | None


@dataclass(frozen=True)
class Audits:
    unequal: tuple[AuditRow, ...]  # at most AUDITS_SHOWN_MAX, the newest first
    unequal_total: int
    equal_total: int
    last: tuple[AuditRow, ...]  # the last audit, every row of it (at most AUDITS_SHOWN_MAX)


@dataclass(frozen=True)
class SensorRow:
    """Statistics of a series over the whole run, or the reason why it is absent."""

    name: str
    unit: str | None
    number: int = 0
    low: float | None = None
    median: float | None = None
    p99: float | None = None
    high: float | None = None
    absent: str | None = None

    @property
    def noise(self) -> bool:
        """True when the series describes the host or the load generator and not the server."""
        return self.name.startswith("host.") or self.name.endswith(".cpu") or self.name in LOAD_NOISE


@dataclass(frozen=True)
class EventRow:
    proc: str
    kind: str
    number: int
    first_s: float
    last_s: float
    detail: str | None  # detail of the first event


@dataclass(frozen=True)
class RunEnvironment:
    started: str | None  # wall clock time in UTC
    audits: Audits
    sensors: tuple[SensorRow, ...]
    events: tuple[EventRow, ...]
    marks: tuple[tuple[str, int], ...]
    facts: tuple[tuple[str, str], ...]


def environment(source: RunFiles) -> RunEnvironment:
    return RunEnvironment(
        _started(source), _audits(source), _sensors(source), _events(source), _marks(source), _facts(source)
    )


def _started(source: RunFiles) -> str | None:
    for row in source.rows("SELECT real_ns, t_ns FROM clock WHERE real_ns IS NOT NULL ORDER BY t_ns LIMIT 1"):
        moment = datetime.fromtimestamp((row["real_ns"] - row["t_ns"]) * S_PER_NS, tz=UTC)
        return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
    return None


def _audits(source: RunFiles) -> Audits:
    columns = "t_ns * 1e-9, scope, name, kind, owner, value, expected, unit, history"
    apart = "expected IS NOT NULL AND value <> expected"
    counts = f"SELECT coalesce(sum(value = expected), 0), coalesce(sum({apart}), 0) FROM audit"  # noqa: S608 - our text
    equal, unequal = source.rows(counts)[0]
    newest = f"SELECT {columns} FROM audit WHERE {apart} ORDER BY t_ns DESC, name, owner LIMIT ?"  # noqa: S608
    at_last = "t_ns = (SELECT max(t_ns) FROM audit)"
    last = f"SELECT {columns} FROM audit WHERE {at_last} ORDER BY name, kind, owner LIMIT ?"  # noqa: S608
    return Audits(
        tuple(AuditRow(*row) for row in source.rows(newest, (AUDITS_SHOWN_MAX,))),
        unequal,
        equal,
        tuple(AuditRow(*row) for row in source.rows(last, (AUDITS_SHOWN_MAX,))),
    )


def _sensors(source: RunFiles) -> tuple[SensorRow, ...]:
    rows = []
    for row in source.rows("SELECT name, unit, kind, absent FROM series ORDER BY name"):
        values = samples(source, row["name"])[1]
        if row["absent"] or not len(values):
            reason = row["absent"] or "it was planned and gave no sample"
            rows.append(SensorRow(row["name"], row["unit"], absent=reason))
            continue
        quantiles = np.quantile(values, (0, 0.5, 0.99, 1), method="inverted_cdf").tolist()
        rows.append(SensorRow(row["name"], row["unit"], len(values), *quantiles))
    return tuple(rows)


def _events(source: RunFiles) -> tuple[EventRow, ...]:
    counts: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], tuple[float, str | None]] = {}
    last: dict[tuple[str, str], float] = {}
    for row in source.walk("SELECT t_ns, proc, kind, value, detail FROM event ORDER BY t_ns"):
        key = (row["proc"] or "?", row["kind"] or "?")
        counts[key] += 1
        detail = row["detail"] if row["detail"] is not None else (None if row["value"] is None else f"{row['value']:g}")
        first.setdefault(key, (row["t_ns"] * S_PER_NS, None if detail is None else str(detail)[:DETAIL_CHARS_MAX]))
        last[key] = row["t_ns"] * S_PER_NS
    return tuple(EventRow(*key, number, first[key][0], last[key], first[key][1]) for key, number in counts.items())


def _marks(source: RunFiles) -> tuple[tuple[str, int], ...]:
    return tuple((row[0], row[1]) for row in source.rows("SELECT name, sum(n) FROM mark GROUP BY name ORDER BY name"))


def _facts(source: RunFiles) -> tuple[tuple[str, str], ...]:
    target = source.plan.get("target") or {}
    pairs = {f"target.{key}": value for key, value in target.items()}
    pairs |= {f"planned.{key}": value for key, value in (source.plan.get("cost") or {}).items()}
    # Recorded values replace planned ones.
    pairs |= {row["key"]: row["value"] for row in source.rows("SELECT key, value FROM meta ORDER BY key")}
    return tuple((key, _words(value)[:DETAIL_CHARS_MAX]) for key, value in pairs.items() if value is not None)


def _words(value: object) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
