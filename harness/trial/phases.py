"""The phases of a trial in their fixed order, with the begin and the end of each.

phase      begin               end
warmup     load starts         a number of good replies
baseline   -                   a time; then the gate: an unhealthy baseline ends the run
trial n    faults become due   a time, or a number of good replies
quiesce n  load pauses         no request is open; then an exact audit
recovery   all faults heal     a time
restart    load pauses         no request is open, exact audit, the target starts again; then a number of good replies
fresh      -                   a time
drain      load stops          all replies have ended; then the last audit
"""

from collections.abc import Callable
from dataclasses import dataclass

from harness.plan.timeline import PlannedPhase
from harness.trial.loop import Loop, Reason
from harness.trial.ports import AdminGone, LoadDied, RestartFailed
from harness.trial.stop import Overdue

SETTLE_S = 1.0
"""Time from the last reply to the audit (s). Late completions of cancelled work arrive in this time."""
SETTLE_FOREIGN_S = 15.0
"""Longest time (s) for a target that has only gauges: some servers notice late that a client disconnected."""
GATE_ERRORS_MAX = 0.1
WIND_UP_S = 3.0
STOP_MARGIN_S = 10.0
"""Longest time (s) from the end of a drain to the load's report that it has finished."""


@dataclass
class Phases:
    """All phases of one trial. `show` is called at every tick with the phase and the seconds since it began."""

    loop: Loop
    phases: tuple[PlannedPhase, ...]
    show: Callable[[PlannedPhase, float], None]
    _ok_at_restart: int | None = None
    """Good replies until the restart; None until the target has started again."""

    def run(self) -> Reason | None:
        """Run all phases. Returns None, or the reason for an early end. Faults are healed and audited in both cases."""
        for phase in self.phases:
            reason = self._phase(phase)
            if reason is not None:
                self._wind_up()
                return reason
        return None

    def _phase(self, phase: PlannedPhase) -> Reason | None:
        loop, start_ns = self.loop, self.loop.clock.now_ns()
        loop.recorder.phase(phase.name, phase.n, start_ns, None, None)
        ok_before, heard_before = loop.stats.ok, loop.stats.counts.copy()
        ended_by = "died"
        try:
            self._begin(phase, start_ns)
            ended_by, reason = self._stay(phase, start_ns, ok_before)
            if reason is None:
                self._end(phase)
                if phase.name == "baseline":
                    reason = self._gate(loop.stats.counts - heard_before)
        except LoadDied:
            loop.recorder.phase(phase.name, phase.n, start_ns, loop.clock.now_ns(), "died")
            raise
        except RestartFailed as failed:
            reason = Reason("died", f"the target did not start again: {failed}")
        except (Exception, Overdue) as error:
            reason = self._broken(error)
        loop.recorder.phase(phase.name, phase.n, start_ns, loop.clock.now_ns(), reason.by if reason else ended_by)
        return reason

    def _broken(self, error: BaseException) -> Reason:
        """The reason to end the run when the runtime under test raised `error` or does not come back; an error of our
        own is raised again."""
        target = self.loop.target
        if not target.broke(error):
            raise error
        if isinstance(error, Overdue) and error.signalled:
            return Reason("signal", f"{self.loop.stop.asked} received; {error}")
        return Reason("died", target.gone() or str(error))

    def _stay(self, phase: PlannedPhase, start_ns: int, ok_before: int) -> tuple[str, Reason | None]:
        """Tick until the phase is over, its longest time is up, or the run must end. Returns (ended_by, reason)."""
        loop = self.loop
        while (reason := loop.tick()) is None:
            elapsed_s = (loop.clock.now_ns() - start_ns) / 1e9
            self.show(phase, elapsed_s)
            if self._over(phase, elapsed_s, loop.stats.ok - ok_before):
                return "done", None
            if elapsed_s >= phase.max_s + (STOP_MARGIN_S if phase.name == "drain" else 0.0):
                return "max", None
            self.loop.clock.pass_turn()
        return reason.by, reason

    def _begin(self, phase: PlannedPhase, now_ns: int) -> None:
        loop = self.loop
        loop.load.phase(phase.name, phase.n)
        match phase.name:
            case "warmup":
                loop.load.begin(now_ns)
            case "trial" if loop.trial_since_ns is None:
                loop.trial_since_ns = now_ns
            case "quiesce" | "restart":
                loop.load.pause()
            case "recovery":
                loop.heal()
            case "drain":
                loop.load.stop(phase.max_s)

    def _over(self, phase: PlannedPhase, elapsed_s: float, ok: int) -> bool:
        if phase.name == "quiesce":
            return self.loop.load.idle
        if phase.name == "drain":
            return self.loop.load.finished
        if phase.name == "restart":
            return self._restarted(phase)
        return ok >= phase.completed if phase.completed is not None else elapsed_s >= phase.planned_s

    def _restarted(self, phase: PlannedPhase) -> bool:
        """Restart the target once the load is idle. Returns True when the new process is warmed up."""
        loop = self.loop
        if self._ok_at_restart is None:
            if loop.load.idle:
                self._audit("quiesce")
                loop.restart()
                self._ok_at_restart = loop.stats.ok
                loop.load.resume()
            return False
        return loop.stats.ok - self._ok_at_restart >= (phase.completed or 0)

    def _end(self, phase: PlannedPhase) -> None:
        match phase.name:
            case "quiesce":
                # While requests are open, only a live audit is possible.
                self._audit("quiesce" if self.loop.load.idle else "live")
                self.loop.load.resume()
            case "drain":
                self._audit("drain")

    def _gate(self, replies: dict[str, int]) -> Reason | None:
        """Require a healthy baseline: a service that fails before any fault makes the trial meaningless."""
        judged = sum(n for outcome, n in replies.items() if outcome not in ("cancelled", "dropped"))
        bad = judged - replies.get("ok", 0)
        if judged == 0 and self.phases[1].planned_s > 0:
            return Reason("abort", "baseline gate: no reply ended in the whole baseline")
        if judged and bad / judged > GATE_ERRORS_MAX:
            words = ", ".join(f"{n} {outcome}" for outcome, n in replies.items() if outcome != "ok")
            return Reason("abort", f"baseline gate: {bad} of {judged} replies failed before any fault ({words})")
        return None

    def _audit(self, scope: str) -> None:
        """Request an audit from a target with an admin port. A failed call leaves an event instead of rows."""
        loop, since_ns = self.loop, self.loop.clock.now_ns()
        while not self._settled((loop.clock.now_ns() - since_ns) / 1e9):
            loop.tick()
            self.loop.clock.pass_turn()
        try:
            if loop.target.admin is not None:
                loop.target.admin.audit(scope)
        except AdminGone as error:
            loop.recorder.event(loop.clock.now_ns(), "harness", "audit_failed", None, f"{scope}: {error}")

    def _settled(self, waited_s: float) -> bool:
        """True when no more resources are expected to be returned."""
        if waited_s < SETTLE_S:
            return False
        if self.loop.target.admin is not None or self.loop.target.metrics_url is None:
            return True
        # Samples are taken once a second, so one was taken after the last reply.
        busy = any(self.loop.stats.sensors.get(name) for name in ("server.running", "server.waiting"))
        return waited_s >= SETTLE_FOREIGN_S or (waited_s >= 2 * SETTLE_S and not busy)

    def _wind_up(self) -> None:
        """End a run early: heal all faults, wait WIND_UP_S for open replies, and audit the target once more."""
        loop = self.loop
        try:
            loop.heal()
            loop.load.stop(WIND_UP_S)
            until_ns = loop.clock.now_ns() + int((WIND_UP_S + STOP_MARGIN_S) * 1e9)
            while not loop.load.finished and loop.clock.now_ns() < until_ns:
                loop.tick()
                self.loop.clock.pass_turn()
            if loop.target.gone() is None:
                self._audit("live")
        except (Exception, Overdue) as error:
            self._broken(error)
