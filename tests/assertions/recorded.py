"""A recorded run for judges, built row by row: healthy by default, so that a test plants exactly one defect.

0 ---- 20 ------- 35 --------------------------- 155 -------- 185 --- 190 s
warmup   baseline    trial                           recovery     drain
                         oom#0: 60 armed, 61 fires, 62 healed, 72 recovered
"""

import copy
import functools
import random
import sqlite3
from typing import Any
from unittest.mock import patch

from assertions import judge as judges
from assertions import schema
from assertions.history import History
from assertions.judge import Need, judge, judges_of, needs
from assertions.judges import load
from assertions.plan_view import PlanView
from assertions.verdict import Judged, Verdict

S = 1_000_000_000
MS = 1_000_000
Row = dict[str, Any]

PLAN: Row = {
    "plan": 1,
    "run_id": "r1",
    "seatrial": "0.1.0",
    "commit": "abc",
    "dirty": False,
    "seed": 7,
    "scenario": {
        "name": "two-minutes",
        "means": "it broke",
        "drive": "live",
        "phases": {"trial": 120.0, "quiesce": None},
        "load": [{"id": "chat", "group": "chat", "probe": False}],
        "canary": {"every": 5.0, "compared_min": 0.9},
        "check": [
            {"that": "ttft.p99 < 800ms", "load": "chat", "group": None, "where": "outside", "level": "required"},
            {"that": "errors.outside < 1%", "load": None, "group": None, "where": "outside", "level": "required"},
        ],
    },
    "target": {"kind": "builtin", "url": None, "capabilities": ["arm", "ledger", "kv_live", "pid", "exact"]},
    "phases": [
        {"name": name, "n": 0, "planned_s": planned_s}
        for name, planned_s in (("warmup", 20.0), ("baseline", 15.0), ("trial", 120.0), ("recovery", 30.0))
    ],
    "faults": [
        {
            "id": "oom",
            "n": 0,
            "at_s": 25.0,
            "after": None,
            "do": "kv.take: oom",
            "point": "kv.take",
            "action": "oom",
            "symptom": "mark:kv.out_of_blocks",
            "severity": "recoverable",
            "scope": {"group": "chat"},
            "fired_min": 1,
            "expect": {
                "outcomes": ["ok", "refused"],
                "victims": "hit",
                "marks": ["kv.preempt"],
                "recover_s": 10.0,
                "recover_completed": None,
            },
        }
    ],
    "judges": [],
    "load": [{"id": "chat", "rate_mean": 8.0, "rate_max": 8.0, "arrivals_planned": 1480, "period_s": None}],
    "cost": {"requests": 1500, "tokens": 10000, "wall_s": 190.0},
}


class Recorded:
    """Rows by table, open to change until `history()` is asked for. `plan` may be changed too."""

    def __init__(self) -> None:
        self.plan = copy.deepcopy(PLAN)
        self.tables: dict[str, list[Row]] = {table: [] for table in schema.TABLES}

    def add(self, table: str, **values: Any) -> Row:
        unknown = set(values) - set(schema.columns(table))
        assert not unknown, f"{table} has no column {unknown}"
        row = dict.fromkeys(schema.columns(table)) | values
        self.tables[table].append(row)
        return row

    def find(self, table: str, **values: Any) -> Row:
        """The only row with these values."""
        found = [row for row in self.tables[table] if all(row[key] == value for key, value in values.items())]
        assert len(found) == 1, f"{len(found)} rows in {table} with {values}"
        return found[0]

    def drop(self, table: str, **values: Any) -> None:
        self.tables[table].remove(self.find(table, **values))

    def request(
        self,
        name: str,
        at_ns: int,
        *,
        load: str = "chat",
        kind: str = "load",
        group: str | None = "chat",
        e2e_ns: int = 100 * MS,
        ttft_ns: int = 20 * MS,
        outcome: str = "ok",
        tokens: int = 5,
    ) -> Row:
        """A request with its reply and its line in the server's ledger."""
        row = self.add(
            "request", id=name, load=load, kind=kind, grp=group, intended_ns=at_ns, sent_ns=at_ns + MS,
            prompt_tokens=10, output_tokens_max=64,
        )  # fmt: skip
        ok = outcome == "ok"
        self.add(
            "reply", request=name, head_ns=at_ns + 5 * MS, first_ns=at_ns + ttft_ns if ok else None,
            last_ns=at_ns + e2e_ns if ok else None, end_ns=at_ns + e2e_ns, outcome=outcome,
            http=200 if ok else 429, finish="length" if ok else None, output_tokens=tokens if ok else None,
            tokens_from="usage",
        )  # fmt: skip
        self.add(
            "served", request=name, server_id=f"s-{name}", proc="server", arrive_ns=at_ns + 2 * MS,
            end_ns=at_ns + e2e_ns, outcome=outcome, finish="length" if ok else None, tokens_out=tokens if ok else 0,
        )  # fmt: skip
        return row

    def series(
        self, name: str, samples: list[tuple[int, float]], period_ns: int = S, absent: str | None = None
    ) -> None:
        number = len(self.tables["series"]) + 1
        self.add("series", id=number, name=name, kind="gauge", period_ns=period_ns, absent=absent)
        for t_ns, value in samples:
            self.add("sample", series=number, t_ns=t_ns, value=value)

    def cut_at(self, t_ns: int, ended_by: str) -> None:
        """The harness died or was stopped: nothing that came later was recorded."""
        kept = [row for row in self.tables["phase"] if row["start_ns"] < t_ns]
        kept[-1] |= {
            "end_ns": None if ended_by == "died" else t_ns,
            "ended_by": None if ended_by == "died" else ended_by,
        }
        self.tables["phase"] = kept
        times = {"request": "intended_ns", "reply": "end_ns", "served": "end_ns", "sample": "t_ns", "audit": "t_ns"}
        for table, column in (times | {"fault": "arm_ns", "fire": "t_ns", "mark": "t_ns", "event": "t_ns"}).items():
            self.tables[table] = [row for row in self.tables[table] if row[column] < t_ns]

    def history(self) -> History:
        connection = sqlite3.connect(":memory:")
        schema.create(connection)
        self.write(connection)
        return History(connection)

    def write(self, connection: sqlite3.Connection) -> None:
        for table, rows in self.tables.items():
            holes = ", ".join("?" * len(schema.columns(table)))
            connection.executemany(f"INSERT INTO {table} VALUES ({holes})", [tuple(row.values()) for row in rows])
        connection.commit()

    def plan_view(self) -> PlanView:
        return PlanView.from_plan(self.plan)

    def verdict(self) -> Verdict:
        with self.history() as history:
            return judge(history, self.plan_view())

    def judged(self, name: str) -> Judged:
        """What this judge says; of the others, only that of the load is asked, since it can void what this one says."""
        asked = {name, load.NAME}
        with patch.object(judges, "judges_of", lambda plan: [one for one in judges_of(plan) if one.name in asked]):
            return next(judged for judged in self.verdict().judges if judged.name == name)


def phases(run: Recorded, *ends: tuple[str, int]) -> None:
    start_s = 0
    for name, end_s in ends:
        run.add("phase", name=name, n=0, start_ns=start_s * S, end_ns=end_s * S, ended_by="done")
        start_s = end_s


def healthy() -> Recorded:
    """A fresh copy of a good run: two minutes at 8/s with one fault, canaries and an audited drain.

    Every required judge says PASS on it.
    """
    run = Recorded()
    run.tables = {table: [dict(row) for row in rows] for table, rows in _healthy().tables.items()}
    return run


@functools.cache
def _healthy() -> Recorded:
    run, rng = Recorded(), random.Random("healthy")
    phases(run, ("warmup", 20), ("baseline", 35), ("trial", 155), ("recovery", 185), ("drain", 190))
    for number in range(185 * 8):
        jitter_ns = rng.randrange(10 * MS)
        run.request(f"r{number}", number * S // 8, e2e_ns=100 * MS + jitter_ns, ttft_ns=20 * MS + jitter_ns)
    for number in range(37):
        name = f"canary{number}"
        run.request(name, (number * 5 + 1) * S, load="canary", kind="canary", group=None)
        run.add("canary", request=name, reference="exact", compared=5, margin=2e-7, state="equal")
    for number in range(480, 500):  # bystanders of the fault, but for the one that it hit
        if number != 488:
            run.add("canary", request=f"r{number}", reference="twin", compared=5, state="equal")
    run.add(
        "fault", id="oom", n=0, arm_ns=60 * S, first_ns=61 * S, heal_ns=62 * S, healed_by="times",
        hits=1, fired=1, fired_min=1, state="healed",
    )  # fmt: skip
    run.add("fire", fault="oom", n=0, t_ns=61 * S, hit=1, point="kv.take", request="r488", proof="called")
    run.find("reply", request="r488").update(
        outcome="refused", http=429, finish=None, first_ns=None, output_tokens=None
    )
    run.find("served", request="r488").update(outcome="refused", finish=None)
    run.add("mark", name="kv.out_of_blocks", t_ns=61 * S, n=1)
    run.add("mark", name="kv.preempt", t_ns=61 * S + MS, n=1)
    run.add("audit", t_ns=189 * S, scope="drain", name="kv.blocks", kind="live", value=0, expected=0, unit="blocks")
    run.add("audit", t_ns=189 * S, scope="drain", name="kv.blocks", kind="limbo", value=0, expected=0, unit="blocks")
    run.add("audit", t_ns=189 * S, scope="drain", name="kv.blocks", kind="cached", value=40, unit="blocks")
    run.add("event", t_ns=0, proc="server", kind="start", detail="")
    run.add("event", t_ns=190 * S, proc="server", kind="exit", value=0, detail="")
    run.series("load.cpu", [(second * S, 0.2) for second in range(190)])
    run.series("server.steps", [(second * S, 9.0 * second) for second in range(190)])
    run.tables["series"][-1]["kind"] = "counter"
    return run


def long_run(periods: int = 12, period_s: int = 60) -> Recorded:
    """A trial of whole load periods with a probe at 1/s: for trends. It has no fault and no exact evidence."""
    run = Recorded()
    end_s = 20 + periods * period_s
    phases(run, ("warmup", 10), ("baseline", 20), ("trial", end_s), ("recovery", end_s + 10), ("drain", end_s + 15))
    run.plan["faults"] = []
    run.plan["scenario"]["check"] = []
    run.plan["scenario"]["load"] = [{"id": "probe", "group": None, "probe": True}]
    run.plan["load"] = [
        {"id": "probe", "rate_mean": 8.0, "rate_max": 8.0, "arrivals_planned": None, "period_s": period_s}
    ]
    run.plan["phases"] = [{"name": "trial", "n": 0, "planned_s": float(periods * period_s)}]
    return run


def foreign() -> Recorded:
    """A stock server: no ledger, no audit, no injector of ours in it."""
    run = healthy()
    run.plan["target"] = {"kind": "url", "url": "http://127.0.0.1:8000", "capabilities": ["pid", "metrics"]}
    for table in ("audit", "served", "event"):
        run.tables[table].clear()
    return run


def need_of(run: Recorded, name: str) -> Need:
    return next(need for need in needs(PlanView.from_plan(run.plan)) if need.judge == name)
