"""The loop of a trial: the work of one tick, which is equal in every phase.

events of the target -> events of the load -> statistics -> heartbeat, due faults -> reasons to end early
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness.record.recorder import Recorder
from harness.trial.abort import AbortWatch
from harness.trial.fault_scheduler import FaultScheduler
from harness.trial.live_stats import LiveStats
from harness.trial.ports import AdminGone, Clock, Load, RestartFailed, Target
from harness.trial.stop import Stop
from scenarios.schema import Scenario

FAULTS_EVERY_NS = 250_000_000
HEARTBEAT_EVERY_NS = 2_000_000_000
DISK_LOOK_EVERY_NS = 5_000_000_000


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why a run ends early. `by` goes into column ended_by of table phase."""

    by: str
    """signal | abort | died"""
    text: str


@dataclass
class Loop:
    """Holds the objects that exist through all phases of one trial."""

    scenario: Scenario
    directory: Path
    recorder: Recorder
    clock: Clock
    target: Target
    load: Load
    stats: LiveStats
    faults: FaultScheduler
    stop: Stop
    on_new_pid: Callable[[int], None] = lambda pid: None
    """Called with the new process id after a restart of the server."""
    trial_since_ns: int | None = None
    """Start of the trial phase on `clock`; fault times count from it. None before the trial and after its faults."""
    _abort: AbortWatch = field(init=False)
    _due_ns: dict[str, int] = field(default_factory=dict)
    _trouble: str | None = None
    _healing: bool = False
    """True while the request to heal all faults has not reached the server."""

    def __post_init__(self) -> None:
        self._abort = AbortWatch(self.scenario.aborts)

    def tick(self) -> Reason | None:
        """Do the work of one tick. Returns the reason to end the run, or None. Raises LoadDied, HistoryFull."""
        now_ns = self.clock.now_ns()
        self._follow_target(now_ns)
        self.load.tick()
        self.stats.refresh(now_ns, bool(self.faults.active))
        if self.target.admin is not None:
            self._inject(now_ns)
        return self._reason(now_ns)

    def heal(self) -> None:
        """Heal all faults now, or at the first tick at which a restarting server answers again."""
        self.trial_since_ns = None
        if self.target.admin is not None:
            self._healing = True
            self._inject(self.clock.now_ns())

    def restart(self) -> None:
        """Start the target again. Raises RestartFailed."""
        self.recorder.event(self.clock.now_ns(), "harness", "target_restart", None, "started again by the harness")
        try:
            self.target.restart()
        except RestartFailed as failed:
            self.recorder.event(self.clock.now_ns(), "server", "restart_failed", None, str(failed))
            raise
        if self.target.pid is not None:
            self.on_new_pid(self.target.pid)

    def _follow_target(self, now_ns: int) -> None:
        before = self.target.pid
        self.target.tick(now_ns)
        if self.target.pid is not None and self.target.pid != before:
            self.on_new_pid(self.target.pid)

    def _inject(self, now_ns: int) -> None:
        """Send heartbeat and faults. A server that does not answer leaves one event; the next tick tries again."""
        assert self.target.admin is not None
        try:
            if self._due("heartbeat", now_ns, HEARTBEAT_EVERY_NS):
                self.target.admin.heartbeat()
                self._trouble = None
            if self.trial_since_ns is not None and self._due("faults", now_ns, FAULTS_EVERY_NS):
                self.faults.tick(self.target.admin, (now_ns - self.trial_since_ns) / 1e9)
            if self._healing:
                self.faults.heal_all(self.target.admin)
                self._healing = False
        except AdminGone as error:
            if self._trouble is None:
                what = "healing: " if self._healing else ""
                self.recorder.event(now_ns, "harness", "admin_gone", None, f"{what}{error}")
            self._trouble = str(error)

    def _reason(self, now_ns: int) -> Reason | None:
        if self.stop.asked is not None:
            return Reason("signal", f"{self.stop.asked} received")
        if (gone := self.target.gone()) is not None:
            return Reason("died", gone)
        if self.stats.stalled is not None:
            return Reason("died", f"the server stands still: {self.stats.stalled}")
        if self.load.breaker is not None:
            return Reason("abort", f"the load stopped itself: {self.load.breaker}")
        # Figures are computed only for a scenario with abort rules: a virtual day has 345,600 ticks.
        if self._abort.rules and (rule := self._abort.tick(now_ns, self.stats.figures())) is not None:
            return Reason("abort", rule)
        return self._over_limits(now_ns)

    def _over_limits(self, now_ns: int) -> Reason | None:
        limits = self.scenario.limits
        ran_s = (now_ns - self.recorder.start_ns) / 1e9
        if limits.wall is not None and ran_s > limits.wall:
            return Reason("abort", f"limits.wall: {ran_s:.0f} s of {limits.wall:g} s are used up")
        if self._due("disk", now_ns, DISK_LOOK_EVERY_NS):
            used = sum(path.stat().st_size for path in self.directory.iterdir() if path.is_file())
            if used > limits.disk:
                return Reason("abort", f"limits.disk: the run has written {used} of {limits.disk} bytes")
        return None

    def _due(self, what: str, now_ns: int, every_ns: int) -> bool:
        if now_ns < self._due_ns.get(what, 0):
            return False
        self._due_ns[what] = now_ns + every_ns
        return True
