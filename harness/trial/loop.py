"""The loop of a trial: what happens at every tick, whatever phase it is in.

news of the target -> news of the load -> history and figures grow -> heartbeat, faults due -> reasons to end early
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness.record.recorder import Recorder
from harness.trial.abort import AbortWatch
from harness.trial.fault_scheduler import FaultScheduler
from harness.trial.live_stats import LiveStats
from harness.trial.ports import AdminGone, Clock, Load, Target
from harness.trial.stop import Stop
from scenarios.schema import Scenario

FAULTS_EVERY_NS = 250_000_000
HEARTBEAT_EVERY_NS = 2_000_000_000
DISK_LOOK_EVERY_NS = 5_000_000_000


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a run ends before its plan does; `by` is the word of table phase."""

    by: str
    """signal | abort | died"""
    text: str


@dataclass
class Loop:
    """Holds everything that lives through all phases of one trial."""

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
    """Told when a restart has given the server another process."""
    trial_since_ns: int | None = None
    """When the trial began; faults are due from then on. Filled by the phases, None again once faults are over."""
    _abort: AbortWatch = field(init=False)
    _due_ns: dict[str, int] = field(default_factory=dict)
    _trouble: str | None = None
    _healing: bool = False
    """Faults are over, and the server has not heard it yet."""

    def __post_init__(self) -> None:
        self._abort = AbortWatch(self.scenario.aborts)

    def tick(self) -> Reason | None:
        """Go round once. Raises LoadDied, HistoryFull."""
        now_ns = self.clock.now_ns()
        self._follow_target(now_ns)
        self.load.tick()
        self.stats.refresh(now_ns, bool(self.faults.active))
        if self.target.admin is not None:
            self._inject(now_ns)
        return self._reason(now_ns)

    def heal(self) -> None:
        """No fault survives the trial: healed now, or as soon as a server that restarts answers again."""
        self.trial_since_ns = None
        if self.target.admin is not None:
            self._healing = True
            self._inject(self.clock.now_ns())

    def _follow_target(self, now_ns: int) -> None:
        before = self.target.pid
        self.target.tick(now_ns)
        if self.target.pid is not None and self.target.pid != before:
            self.on_new_pid(self.target.pid)

    def _inject(self, now_ns: int) -> None:
        """Heartbeat and faults. A server that does not answer is noted once and asked again at the next tick."""
        assert self.target.admin is not None
        try:
            if self._due("heartbeat", now_ns, HEARTBEAT_EVERY_NS):
                self.target.admin.heartbeat()
                self._trouble = None
            if self.trial_since_ns is not None and self._due("faults", now_ns, FAULTS_EVERY_NS):
                self.faults.tick((now_ns - self.trial_since_ns) / 1e9)
            if self._healing:
                self.faults.heal_all()
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
        if self.load.breaker is not None:
            return Reason("abort", f"the load stopped itself: {self.load.breaker}")
        # Figures are worked out only for a scenario that has rules about them: a virtual day has 345,600 ticks.
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
