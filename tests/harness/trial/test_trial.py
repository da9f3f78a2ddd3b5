"""The phases of a trial over fakes: what begins and ends each, and every way out."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.live.recorded_stats import RecordedStats
from harness.plan.timeline import PlannedPhase, timeline
from harness.record.recorder import Recorder
from harness.trial.fault_scheduler import FaultScheduler
from harness.trial.loop import Loop
from harness.trial.outcome import carry_out
from harness.trial.ports import AdminGone, LoadDied, RestartFailed
from harness.trial.stop import Stop
from scenarios.read import read_text
from tests.harness.trial.test_fault_scheduler import occurrence

NS = 1_000_000_000
TEXT = """
schema = 1
name = "t"
means = "x"
phases = {{ warmup = {{ completed = 2, max = "30s" }}, baseline = "4s", trial = "6s", recovery = "2s"{more} }}
load = [{{ id = "chat", rate = "2/s" }}]
"""


TURN_NS = 100_000_000


class FakeClock:
    """Time passes by turns alone; `at` holds what happens when a second of the run has come."""

    def __init__(self) -> None:
        self.ns = 1000 * NS
        self.at: dict[int, Any] = {}

    def now_ns(self) -> int:
        return self.ns

    def pass_turn(self) -> None:
        self.ns += TURN_NS
        second = (self.ns // NS) - 1000
        if second in self.at:
            self.at.pop(second)()


class FakeLoad:
    """Answers one request a second, well, while it runs."""

    def __init__(self, recorder: Recorder, clock: FakeClock) -> None:
        self.recorder, self.clock = recorder, clock
        self.did: list[str] = []
        self.breaker: str | None = None
        self.idle = False
        self.finished = False
        self.outcome = "ok"
        self.dies_at_s: float | None = None
        self._last_ns: int | None = None
        self._n = 0

    def begin(self, t0_ns: int) -> None:
        self.did.append("begin")
        self._last_ns = t0_ns

    def phase(self, name: str, n: int) -> None:
        self.did.append(f"{name} {n}")

    def pause(self) -> None:
        self.did.append("pause")
        self._last_ns = None
        self.idle = True

    def resume(self) -> None:
        self.did.append("resume")
        self._last_ns, self.idle = self.clock.ns, False

    def stop(self, drain_s: float) -> None:
        self.did.append("stop")
        self._last_ns = None
        self.finished = True

    def tick(self) -> None:
        if self.dies_at_s is not None and self.clock.ns >= (1000 + self.dies_at_s) * NS:
            raise LoadDied("killed", -9)
        while self._last_ns is not None and self.clock.ns - self._last_ns >= NS:
            self._last_ns += NS
            self._n += 1
            name, sent_ns = f"r{self._n}", self._last_ns - NS // 2
            row: dict[str, Any] = {"id": name, "load": "chat", "kind": "load"}
            self.recorder.put("request", **row, intended_ns=sent_ns, sent_ns=sent_ns)
            self.recorder.put("reply", request=name, first_ns=sent_ns + 5, end_ns=self._last_ns, outcome=self.outcome)


class FakeAdmin:
    def __init__(self) -> None:
        self.did: list[str] = []
        self.state: list[dict[str, Any]] = []
        self.down = False

    def heartbeat(self) -> None:
        if self.down:
            raise AdminGone("no answer")
        self.did.append("heartbeat")

    def audit(self, scope: str) -> list[dict[str, Any]]:
        self.did.append(f"audit {scope}")
        return []

    def arm(self, spec: object) -> None:
        self.did.append("arm")

    def heal(self, fault: str) -> None:
        self.did.append(f"heal {fault}")
        self.state[0]["state"] = "healed"

    def states(self) -> list[dict[str, Any]]:
        if self.down:
            raise AdminGone("no answer")
        self.did.append("states")
        return self.state


class FakeTarget:
    url, model, api, metrics_url, pid = "", "m", "completions", None, 1

    def __init__(self) -> None:
        self.admin = FakeAdmin()
        self.dead: str | None = None
        self.never_again = False

    def restart(self) -> None:
        self.admin.did.append("restart")
        if self.never_again:
            raise RestartFailed("no GPU")

    def broke(self, error: BaseException) -> bool:
        return False

    def tick(self, now_ns: int) -> None:
        pass

    def exit_code(self) -> int | None:
        return None

    def gone(self) -> str | None:
        return self.dead


class Bench:
    def __init__(self, tmp_path: Path, more: str = "", extra: str = "") -> None:
        self.scenario = read_text(TEXT.format(more=more) + extra).scenario
        self.clock = FakeClock()
        self.recorder = Recorder(tmp_path, self.clock.ns)
        self.load = FakeLoad(self.recorder, self.clock)
        self.target = FakeTarget()
        self.stop = Stop()
        self.loop = Loop(
            self.scenario, tmp_path, self.recorder, self.clock, self.target, self.load,  # type: ignore[arg-type]
            RecordedStats(self.recorder), FaultScheduler([]), self.stop,
        )  # fmt: skip
        self.at = self.clock.at
        self.shown: Counter[str] = Counter()
        self.said: list[str] = []

    def run(self) -> Any:
        def show(loop: Loop, phase: PlannedPhase, elapsed_s: float) -> None:
            self.shown[phase.name] += 1

        plan: Any = SimpleNamespace(phases=timeline(self.scenario))
        reason = carry_out(plan, self.loop, show, self.said.append)
        self.recorder.pump()
        return reason

    def phases(self) -> list[tuple[str, int, str | None]]:
        rows = self.recorder._connection.execute("SELECT name, n, ended_by FROM phase ORDER BY start_ns, rowid")
        return [tuple(row) for row in rows]

    def events(self, proc: str) -> list[tuple[str, float | None]]:
        rows = self.recorder._connection.execute("SELECT kind, value FROM event WHERE proc = ?", (proc,))
        return [tuple(row) for row in rows]


@pytest.fixture
def bench(tmp_path: Path):
    made: list[Bench] = []

    def make(more: str = "", extra: str = "") -> Bench:
        made.append(Bench(tmp_path, more, extra))
        return made[-1]

    yield make
    for each in made:
        each.recorder.close()


def test_phases_come_in_their_fixed_order_and_all_are_recorded_as_done(bench):
    trial = bench()
    assert trial.run() is None
    assert trial.phases() == [(name, 0, "done") for name in ("warmup", "baseline", "trial", "recovery", "drain")]
    assert trial.load.did == ["warmup 0", "begin", "baseline 0", "trial 0", "recovery 0", "drain 0", "stop"]
    assert trial.target.admin.did[-1] == "audit drain" or "audit drain" in trial.target.admin.did


def test_quiesce_stops_the_load_audits_and_goes_on(bench):
    trial = bench(', quiesce = { every = "3s" }')
    assert trial.run() is None
    assert trial.load.did[4:8] == ["quiesce 0", "pause", "resume", "trial 1"]
    assert trial.target.admin.did.count("audit quiesce") == 1


def test_a_restart_waits_for_the_last_reply_audits_and_warms_up_again(bench):
    trial = bench(', fresh = "3s"')
    began: list[int] = []
    trial.loop.on_new_pid = began.append
    assert trial.run() is None
    assert trial.load.did[-6:] == ["restart 0", "pause", "resume", "fresh 0", "drain 0", "stop"]
    did = trial.target.admin.did
    assert did[did.index("restart") - 1] == "audit quiesce"
    assert began == [1]
    assert trial.events("harness") == [("target_restart", None)]
    assert [row for row in trial.phases() if row[0] in ("restart", "fresh")] == [
        ("restart", 0, "done"),
        ("fresh", 0, "done"),
    ]


def test_a_target_that_does_not_start_again_ends_the_run_as_died(bench):
    trial = bench(', fresh = "3s"')
    trial.target.never_again = True
    reason = trial.run()
    assert (reason.by, trial.phases()[-1]) == ("died", ("restart", 0, "died"))
    assert "no GPU" in reason.text
    assert trial.events("server") == [("restart_failed", None)]


def test_baseline_without_a_good_reply_stops_the_run_before_any_fault(bench):
    trial = bench()
    trial.at[3] = lambda: setattr(trial.load, "outcome", "http_error")
    reason = trial.run()
    assert reason.by == "abort"
    assert "baseline gate" in reason.text
    assert trial.phases()[-1] == ("baseline", 0, "abort")
    assert "trial 0" not in trial.load.did


def test_warmup_that_never_completes_its_requests_ends_by_max(bench):
    trial = bench()
    trial.load.outcome = "http_error"
    reason = trial.run()
    assert trial.phases()[0] == ("warmup", 0, "max")
    assert reason.by == "abort"


def test_signal_ends_the_phase_as_signal_and_still_drains_and_audits(bench):
    trial = bench()
    trial.at[8] = lambda: setattr(trial.stop, "asked", "SIGINT")
    reason = trial.run()
    assert (reason.by, trial.phases()[-1]) == ("signal", ("trial", 0, "signal"))
    assert trial.load.did[-1] == "stop"
    assert trial.target.admin.did[-1] == "audit live"


def test_dead_server_ends_the_run_as_died(bench):
    trial = bench()
    trial.at[8] = lambda: setattr(trial.target, "dead", "the server ended with signal SIGKILL")
    reason = trial.run()
    assert (reason.by, trial.phases()[-1][2]) == ("died", "died")
    assert "audit live" not in trial.target.admin.did
    assert trial.events("server") == [("exit", None)]
    assert trial.events("harness") == [("ended_by_died", None)]


def test_dead_load_process_is_told_apart_and_its_phase_ends_as_died(bench):
    trial = bench()
    trial.load.dies_at_s = 8
    assert trial.run().by == "died"
    assert trial.phases()[-1] == ("trial", 0, "died")
    assert trial.events("load") == [("exit", -9.0)]


def test_abort_rule_ends_the_run(bench):
    trial = bench(extra="abort = ['errors > 20% for 2s']\n")
    trial.at[7] = lambda: setattr(trial.load, "outcome", "timeout")
    reason = trial.run()
    assert reason.by == "abort"
    assert reason.text.startswith("errors = ")


def test_wall_limit_ends_the_run(bench):
    trial = bench(extra='[limits]\nwall = "5s"\n')
    reason = trial.run()
    assert "limits.wall" in reason.text


def rest_s(trial: Bench, gauge: float, idle_at_s: int | None) -> float:
    """How long the drain took, with a foreign target whose gauge of running requests is idle from that second on."""
    trial.target.admin, trial.target.metrics_url = None, "http://127.0.0.1:1/metrics"
    trial.loop.stats.sensors["server.running"] = gauge
    if idle_at_s is not None:
        trial.at[idle_at_s] = lambda: trial.loop.stats.sensors.update({"server.running": 0.0})
    assert trial.run() is None
    query = "SELECT start_ns, end_ns FROM phase WHERE name = 'drain'"
    start_ns, end_ns = trial.recorder._connection.execute(query).fetchone()
    return (end_ns - start_ns) / NS


@pytest.mark.parametrize(
    ("gauge", "idle_at_s", "least_s", "most_s"),
    [
        (0.0, None, 1.9, 2.3),  # idle, and a sample of after the last reply has come
        (2.0, 20, 4.0, 8.0),  # it noticed late that its clients left
        (2.0, None, 14.9, 15.3),  # it never does, and is not waited for for ever
    ],
)
def test_foreign_target_is_given_time_to_give_back_what_its_clients_left(bench, gauge, idle_at_s, least_s, most_s):
    assert least_s <= rest_s(bench(), gauge, idle_at_s) <= most_s


def test_server_that_restarts_as_the_trial_ends_is_healed_when_it_answers_again(bench):
    trial = bench()
    trial.loop.faults = FaultScheduler([occurrence("oom", at_s=0.0)])
    trial.target.admin.state = [{"id": "oom", "n": 0, "state": "armed", "first_ns": None}]
    trial.at[12] = lambda: setattr(trial.target.admin, "down", True)  # the trial ends a second later
    trial.at[14] = lambda: setattr(trial.target.admin, "down", False)
    assert trial.run() is None
    did = trial.target.admin.did
    assert did.count("heal oom") == 1
    assert did[did.index("heal oom") :].count("states") == 1  # healed is healed: nobody asks again
    events = trial.recorder._connection.execute("SELECT detail FROM event WHERE kind = 'admin_gone'").fetchall()
    assert len(events) == 1
