"""The phases of a trial, in their fixed order, and what begins and ends each.

warmup    load starts          until so many good replies
baseline  -                    a time; then the gate: no trial without a healthy baseline
trial n   faults may be due    a time, or so many good replies
quiesce n load stands still    until nothing is open, then an exact audit
recovery  everything healed    a time
drain     load stops           until all replies are in, then the last audit
"""

from collections.abc import Callable
from dataclasses import dataclass

from harness.plan.timeline import PlannedPhase
from harness.trial.loop import Loop, Reason
from harness.trial.ports import AdminGone, LoadDied

SETTLE_S = 1.0
"""From the last reply to the audit: late completions of cancelled work come back in this time."""
SETTLE_FOREIGN_S = 15.0
"""The longest such time for a target that shows only gauges: some notice late that a client left."""
GATE_ERRORS_MAX = 0.1
WIND_UP_S = 3.0
STOP_MARGIN_S = 10.0
"""From the end of a drain to the load process's word that it has ended."""


@dataclass
class Phases:
    """All phases of one trial. `show` is told at every tick: the phase, and the seconds that it has taken."""

    loop: Loop
    phases: tuple[PlannedPhase, ...]
    show: Callable[[PlannedPhase, float], None]

    def run(self) -> Reason | None:
        """All phases; None when the plan was carried out, else why it was not. Heals and audits in any case."""
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
        self._begin(phase, start_ns)
        try:
            ended_by, reason = self._stay(phase, start_ns, ok_before)
            if reason is None:
                self._end(phase)
                if phase.name == "baseline":
                    reason = self._gate(loop.stats.counts - heard_before)
        except LoadDied:
            loop.recorder.phase(phase.name, phase.n, start_ns, loop.clock.now_ns(), "died")
            raise
        loop.recorder.phase(phase.name, phase.n, start_ns, loop.clock.now_ns(), reason.by if reason else ended_by)
        return reason

    def _stay(self, phase: PlannedPhase, start_ns: int, ok_before: int) -> tuple[str, Reason | None]:
        """Until the phase is over, its longest time is up, or the run must end."""
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
            case "quiesce":
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
        return ok >= phase.completed if phase.completed is not None else elapsed_s >= phase.planned_s

    def _end(self, phase: PlannedPhase) -> None:
        match phase.name:
            case "quiesce":
                # One that never came to rest has nothing to be exact about.
                self._audit("quiesce" if self.loop.load.idle else "live")
                self.loop.load.resume()
            case "drain":
                self._audit("drain")

    def _gate(self, heard: dict[str, int]) -> Reason | None:
        """Faults on top of a service that is ill already would prove nothing."""
        judged = sum(n for outcome, n in heard.items() if outcome not in ("cancelled", "dropped"))
        bad = judged - heard.get("ok", 0)
        if judged == 0 and self.phases[1].planned_s > 0:
            return Reason("abort", "baseline gate: not one reply came in the whole baseline")
        if judged and bad / judged > GATE_ERRORS_MAX:
            words = ", ".join(f"{n} {outcome}" for outcome, n in heard.items() if outcome != "ok")
            return Reason("abort", f"baseline gate: {bad} of {judged} replies went wrong before any fault ({words})")
        return None

    def _audit(self, scope: str) -> None:
        """Ask a target that has a ledger; one that does not answer leaves an event, and the judges miss the rows."""
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
        """True when nothing more is expected to be returned."""
        if waited_s < SETTLE_S:
            return False
        if self.loop.target.admin is not None or self.loop.target.metrics_url is None:
            return True
        # Samples come once a second, so one of after the last reply is in by now.
        busy = any(self.loop.stats.sensors.get(name) for name in ("server.running", "server.waiting"))
        return waited_s >= SETTLE_FOREIGN_S or (waited_s >= 2 * SETTLE_S and not busy)

    def _wind_up(self) -> None:
        """A run that ends early still heals, lets open replies come in for a moment, and is looked at once more."""
        loop = self.loop
        loop.heal()
        loop.load.stop(WIND_UP_S)
        until_ns = loop.clock.now_ns() + int((WIND_UP_S + STOP_MARGIN_S) * 1e9)
        while not loop.load.finished and loop.clock.now_ns() < until_ns:
            loop.tick()
            self.loop.clock.pass_turn()
        if loop.target.gone() is None:
            self._audit("live")
