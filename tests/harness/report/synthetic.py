"""A made-up but realistic run directory: minutes of load, faults that bite, a leak, and replies that mean harm.

`python -m tests.harness.report.synthetic DIR [minutes]` writes one to look at.
"""

import json
import math
import sqlite3
import sys
from pathlib import Path
from random import Random
from typing import Any

from assertions import schema
from tests.harness.report.story import HOSTILE, Story
from tests.harness.report.synthetic_verdict import plan, verdict

S = 1_000_000_000


def write(run_dir: Path, story: Story) -> Path:
    """Make `run_dir` with plan.json, run.sqlite, verdict.json and scenario.toml. The same story, the same bytes."""
    run_dir.mkdir(parents=True)
    made = _History(story, run_dir / "run.sqlite")
    made.write()
    _dump(run_dir / "plan.json", plan(story))
    _dump(run_dir / "verdict.json", verdict(story, made.cut[0], made.end_s))
    (run_dir / "scenario.toml").write_text('schema = 1\nname = "night-soak"\n', encoding="utf-8")
    return run_dir


class _History:
    def __init__(self, story: Story, path: Path) -> None:
        self.story, self.random = story, Random(f"{story.seed}/synthetic")
        self.connection = sqlite3.connect(path)
        schema.create(self.connection)
        total_s = story.minutes * 60
        self.end_s = total_s
        self.warm_s, self.trial_s = total_s * 0.08, total_s * 0.2
        self.recovery_s, self.drain_s = total_s * 0.86, total_s * 0.965
        self.oom = (total_s * 0.32, total_s * 0.40)
        self.hang = (total_s * 0.55, total_s * 0.55 + min(12.0, total_s * 0.06))
        self.cut = (total_s * 0.70, total_s * 0.78)
        self.hit: dict[str, list[tuple[float, str]]] = {"oom": [], "hang": [], "cut": []}
        self.counts: dict[str, int] = {}

    def write(self) -> None:
        self._phases()
        self._requests()
        self._canaries()
        self._twins()
        self._faults()
        self._series()
        self._around()
        self.connection.commit()
        self.connection.close()

    def put(self, table: str, **values: Any) -> None:
        names = ", ".join(values)
        marks = ", ".join("?" for _ in values)
        self.connection.execute(
            f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(_storable(value) for value in values.values())
        )

    def _phases(self) -> None:
        edges = (("warmup", 0.0), ("baseline", self.warm_s), ("trial", self.trial_s), ("recovery", self.recovery_s))
        ends = [*(start for _, start in edges[1:]), self.drain_s]
        for (name, start_s), end_s in zip(edges, ends, strict=True):
            self.put("phase", name=name, n=0, start_ns=_ns(start_s), end_ns=_ns(end_s), ended_by="done")
        self.put("phase", name="drain", n=0, start_ns=_ns(self.drain_s), end_ns=_ns(self.end_s), ended_by="done")

    def _requests(self) -> None:
        number = 0
        for load, group, rate in (("chat", "chat", 0.7), ("flood", "batch", 0.2), ("probe", "chat", 0.1)):
            t_s = 0.0
            while True:
                wave = 1 + 0.5 * math.sin(2 * math.pi * t_s / (self.end_s / 2)) if load == "chat" else 1.0
                t_s += (
                    self.random.expovariate(self.story.rate * rate * wave)
                    if load != "probe"
                    else 1 / (self.story.rate * rate)
                )
                if t_s >= self.drain_s - 1:
                    break
                number += 1
                self._request(f"{load[0]}-{number:06d}", load, group, t_s)

    def _request(self, name: str, load: str, group: str, t_s: float) -> None:
        random = self.random
        sent_s = t_s + abs(random.gauss(0, 0.0008))
        ttft_s = 0.038 * random.lognormvariate(0, 0.35) + (0.12 * math.exp(-t_s / 6))
        tokens = max(4, int(random.lognormvariate(3.6, 0.5)))
        outcome, http, finish, error, sample = "ok", 200, "stop", None, None
        fault = None
        if _inside(t_s, self.oom) and random.random() < 0.25:
            fault, outcome, http, finish = "oom", "refused", 429, None
            error = "kv_exhausted: 0 of 512 blocks free"
        elif self.hang[0] <= t_s <= self.hang[1]:
            fault = "hang"
            ttft_s = self.hang[1] - t_s + 0.05
            if random.random() < 0.5:
                outcome, http, finish, error = "timeout", 504, None, "deadline_exceeded"
        elif _inside(t_s, self.cut) and random.random() < 0.3:
            fault, outcome, finish = "cut", "truncated", None
            sample = 'data: {"choices":[{"delta":{"content":" the wind"}}]}\n\ndata: {"choices":[{"del'
        elif random.random() < 0.03:
            outcome, finish = "cancelled", None
        elif random.random() < 0.004:
            outcome, http, error = "http_error", 500, "contract_violation"
        elif random.random() < 0.002:
            outcome, http = "unfinished", None
        elif random.random() < 0.003:
            outcome = "dropped"
        if self.story.hostile and outcome not in {"ok", "cancelled"} and random.random() < 0.5:
            sample = (sample or "") + random.choice(HOSTILE)
            error = f"{error or 'error'} {random.choice(HOSTILE)}"
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        if fault:
            self.hit[fault].append((sent_s, name))
        dropped = outcome == "dropped"
        self.put(
            "request",
            id=name,
            load=load,
            kind="probe" if load == "probe" else "load",
            grp=group,
            worker="0",
            prompt_tokens=120,
            output_tokens_max=200,
            intended_ns=_ns(t_s),
            sent_ns=None if dropped else _ns(sent_s),
        )
        if outcome in {"dropped", "unfinished"}:
            return
        whole_s = ttft_s + tokens * 0.011
        if outcome == "timeout":
            whole_s = self.hang[1] - t_s - 1 if self.hang[1] - t_s > 2 else 1.0
        streamed = outcome in {"ok", "cancelled", "truncated"}
        self.put(
            "reply",
            request=name,
            head_ns=_ns(sent_s + 0.002),
            first_ns=_ns(sent_s + ttft_s) if streamed else None,
            last_ns=_ns(sent_s + whole_s) if streamed else None,
            end_ns=_ns(sent_s + (whole_s if streamed or outcome == "timeout" else 0.006)),
            outcome=outcome,
            http=http,
            finish=finish,
            error=error,
            prompt_tokens=120,
            output_tokens=tokens if streamed else 0,
            tokens_from="usage",
            sample=sample,
        )

    def _canaries(self) -> None:
        t_s, number = self.warm_s, 0
        while t_s < self.drain_s - 2:
            number += 1
            name = f"canary-{number:04d}"
            hung = self.hang[0] <= t_s <= self.hang[1]
            state = "equal"
            if abs(t_s - self.end_s * 0.45) < 6:
                state = "drift"
            if self.story.state == "FAIL" and abs(t_s - self.cut[0] - 4) < 2.6:
                state = "corrupt"
            self.put("request", id=name, load="canary", kind="canary", intended_ns=_ns(t_s), sent_ns=_ns(t_s))
            end_s = self.hang[1] + 0.4 if hung else t_s + 0.42
            self.put(
                "reply",
                request=name,
                first_ns=_ns(end_s - 0.38),
                end_ns=_ns(end_s),
                outcome="ok",
                http=200,
                finish="length",
                output_tokens=32,
            )
            self.put(
                "canary",
                request=name,
                reference="exact",
                tokens="[1,2,3]",
                compared=32,
                parted_at=None if state == "equal" else 11,
                margin=0.4,
                state=state,
            )
            t_s += 5.0

    def _twins(self) -> None:
        """Bystanders held against their fault-free twins: rows of the load, not canaries."""
        query = """SELECT id FROM request JOIN reply ON request = id
                   WHERE kind = 'load' AND outcome = 'ok' ORDER BY sent_ns LIMIT 9"""
        for (name,) in self.connection.execute(query).fetchall():
            self.put("canary", request=name, reference="twin", compared=1, state="equal")

    def _faults(self) -> None:
        for fault, n, do, (start_s, end_s), by in (
            ("oom", 0, "kv.take: oom", self.oom, "for"),
            ("hang", 0, "device.launch: hang 12s", self.hang, "times"),
            ("cut", 0, "server.stream: cut", self.cut, "times"),
        ):
            hits = self.hit[fault]
            first_s = min((t for t, _ in hits), default=None)
            self.put(
                "fault",
                id=fault,
                n=n,
                spec=json.dumps({"do": do}),
                seed=self.story.seed,
                arm_ns=_ns(start_s - 0.4),
                first_ns=None if first_s is None else _ns(first_s),
                heal_ns=_ns(end_s),
                healed_by=by,
                hits=len(hits) * 4,
                fired=len(hits),
                fired_min=1,
                state="healed",
            )
            for hit, (t_s, request) in enumerate(hits):
                self.put(
                    "fire",
                    fault=fault,
                    n=n,
                    t_ns=_ns(t_s),
                    hit=hit * 4,
                    point=do.split(":")[0],
                    request=request,
                    grp="batch",
                    evidence="raised",
                    proof="called",
                )
            mark = {"oom": "kv.out_of_blocks", "hang": "guard.cancelled", "cut": "stream.cut"}[fault]
            for t_s, _ in hits:
                self.put("mark", name=mark, t_ns=_ns(t_s + 0.05), n=1)
        self.put(
            "fault",
            id="quota",
            n=0,
            spec="{}",
            seed=self.story.seed,
            arm_ns=_ns(self.end_s * 0.8),
            heal_ns=_ns(self.recovery_s),
            healed_by="ttl",
            hits=0,
            fired=0,
            fired_min=1,
            state="healed",
        )
        self.put("mark", name="kv.evict", t_ns=_ns(self.oom[0] + 1), n=41)
        self.put("mark", name="kv.preempt", t_ns=_ns(self.oom[0] + 1), n=9)

    def _series(self) -> None:
        names = [
            ("kv.usage", "share", "gauge", self._kv),
            ("kv.limbo_blocks", "count", "gauge", lambda t_s: 14.0 if _inside(t_s, self.hang) else 0.0),
            ("server.generation_tokens", "tokens", "counter", None),
            ("server.running", "count", "gauge", lambda t_s: float(self.random.randint(1, 6))),
            ("server.rss_anon", "bytes", "gauge", lambda t_s: 212e6 + 9e4 * t_s + 3e6 * (1 - math.exp(-t_s / 8))),
            ("load.rss_anon", "bytes", "gauge", lambda t_s: 96e6 + 2e4 * math.sin(t_s)),
            ("load.lateness_ms_p99", "ms", "gauge", lambda t_s: 0.9 + abs(self.random.gauss(0, 0.4))),
            ("load.dropped", "count", "counter", lambda t_s: float(int(t_s > self.end_s / 2))),
            ("host.hiccup_ms", "ms", "gauge", lambda t_s: abs(self.random.gauss(0.2, 0.3)) + 38.0 * (int(t_s) == 77)),
            ("host.steal", "share", "gauge", lambda t_s: 0.002),
            ("server.cpu", "cores", "gauge", lambda t_s: 0.93 + self.random.gauss(0, 0.02)),
            ("server.fds", "count", "gauge", lambda t_s: 31.0),
        ]
        tokens = 0.0
        for number, (name, unit, kind, shape) in enumerate(names):
            absent = "target has no /metrics" if name == "kv.usage" and not self.story.kv_sensor else None
            self.put("series", id=number, name=name, unit=unit, kind=kind, source="test", period_ns=S, absent=absent)
            if absent:
                continue
            for second in range(int(self.end_s)):
                t_s = second + self.random.random() * 0.02
                if shape is None:
                    idle = t_s > self.drain_s or _inside(t_s, self.hang)
                    tokens += 0.0 if idle else 150 + 70 * math.sin(t_s / 19) + self.random.gauss(0, 14)
                    value = tokens
                else:
                    value = shape(t_s)
                self.put("sample", series=number, t_ns=_ns(t_s), value=value)
        self.put(
            "series",
            id=99,
            name="host.throttled_s",
            unit="s",
            kind="counter",
            source="cgroup",
            period_ns=S,
            absent="no cgroup v2 cpu.stat here",
        )
        self.put(
            "series",
            id=98,
            name="host.cpu_pressure",
            unit="share",
            kind="gauge",
            source="psi",
            period_ns=S,
            absent="kernel without pressure stall information",
        )

    def _kv(self, t_s: float) -> float:
        if t_s > self.drain_s:
            return 3 / 512 if self.story.state == "FAIL" else 0.0
        if _inside(t_s, self.oom):
            return 1.0 - 0.02 * self.random.random()
        return 0.28 + 0.16 * math.sin(2 * math.pi * t_s / (self.end_s / 2)) + self.random.gauss(0, 0.025)

    def _around(self) -> None:
        hostile = HOSTILE[0] if self.story.hostile else ""
        for key, value in {
            "seatrial": "0.1.0",
            "python": "3.11.7",
            "torch": "2.13.0+cpu",
            "cpu": f"2 × Xeon {hostile}",
            "cgroup.memory_max": "8589934592",
            "malloc": "MALLOC_ARENA_MAX=1",
            "weights_digest": "9f2c61d0",
            "calibration.before": "1.00",
            "calibration.after": "1.01",
            "history": "1",
        }.items():
            self.put("meta", key=key, value=value)
        self.put("clock", t_ns=0, real_ns=1_796_000_000 * S, boot_ns=0, proc="harness", offset_ns=0, err_ns=900)
        leaked = 3.0 if self.story.state == "FAIL" else 0.0
        owner = f"request f-000412 {hostile}"
        for moment_s, scope in ((self.recovery_s, "quiesce"), (self.end_s - 1, "drain")):
            self.put(
                "audit",
                t_ns=_ns(moment_s),
                scope=scope,
                name="kv.blocks",
                kind="live",
                owner=owner,
                value=leaked,
                expected=0.0,
                unit="blocks",
                history="taken step 4121, preempted 4127, cancel.delivered 4130, never freed",
            )
            for name, kind in (("kv.blocks", "limbo"), ("workspace.bytes", "live"), ("graphs.refs", "live")):
                self.put(
                    "audit",
                    t_ns=_ns(moment_s),
                    scope=scope,
                    name=name,
                    kind=kind,
                    owner=None,
                    value=0.0,
                    expected=0.0,
                    unit="bytes" if "bytes" in name else "count",
                )
            self.put(
                "audit",
                t_ns=_ns(moment_s),
                scope=scope,
                name="kv.blocks",
                kind="cached",
                owner="prefix",
                value=118.0,
                expected=None,
                unit="blocks",
            )
        for t_s, proc, kind, value, detail in (
            (0.4, "server", "start", None, "pid 4121"),
            (77.1, "harness", "hiccup", 38.2, None),
            (self.hang[0] + 4, "server", "guard_trip", None, f"deadline of c-000391 {hostile}"),
            (self.end_s, "server", "exit", 0.0, "exit code 0"),
        ):
            self.put("event", t_ns=_ns(t_s), proc=proc, kind=kind, value=value, detail=detail)


def _dump(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")


def _storable(value: Any) -> Any:
    """SQLite refuses lone surrogates as text; a recorder would have written the raw bytes."""
    return (
        value.encode("utf-8", "surrogatepass").decode("utf-8", "backslashreplace") if isinstance(value, str) else value
    )


def _inside(t_s: float, window: tuple[float, float]) -> bool:
    return window[0] <= t_s < window[1]


def _ns(t_s: float) -> int:
    return round(t_s * S)


if __name__ == "__main__":
    minutes = float(sys.argv[2]) if len(sys.argv) > 2 else 4.0
    print(write(Path(sys.argv[1]), Story(minutes=minutes)))
