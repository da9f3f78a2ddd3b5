"""How a trial is carried out and ended, in any world: facts, phases, the way out, and a history that is closed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.plan.plan import Plan
from harness.plan.timeline import PlannedPhase
from harness.record.recorder import HistoryFull, Recorder
from harness.trial.environment import environment
from harness.trial.loop import Loop, Reason
from harness.trial.phases import Phases
from harness.trial.ports import LoadDied

Say = Callable[[str], None]
Show = Callable[[Loop, PlannedPhase, float], None]
"""Told at every tick: the loop, the phase, and the seconds that it has taken."""


@dataclass(frozen=True)
class Ending:
    """How a drive ended. `early` None: the plan was carried out."""

    early: Reason | None
    disk_full: bool = False


def recorded(
    plan: Plan, recorder: Recorder, facts: Mapping[str, str], say: Say, trial: Callable[[], Reason | None]
) -> Ending:
    """Make the trial with its facts in the history, and close the history however it ends."""
    for key, value in {**environment(plan), **facts}.items():
        recorder.meta(key, value)
    try:
        with recorder:
            return Ending(trial())
    except HistoryFull as error:
        say(f"{error}. The run ends here; what was recorded before is judged.")
        return Ending(Reason("died", str(error)), disk_full=True)


def carry_out(plan: Plan, loop: Loop, show: Show, say: Say) -> Reason | None:
    """Run all phases. A run that ends early leaves the reason in the history, and the exit of a server that died."""
    recorder, clock = loop.recorder, loop.clock
    try:
        early = Phases(loop, plan.phases, lambda phase, elapsed_s: show(loop, phase, elapsed_s)).run()
    except LoadDied as error:
        recorder.event(clock.now_ns(), "load", "exit", error.code, str(error))
        early = Reason("died", str(error))
    if early is not None:
        now_ns = clock.now_ns()
        recorder.event(now_ns, "harness", f"ended_by_{early.by}", None, early.text)
        if loop.target.gone() is not None:
            recorder.event(now_ns, "server", "exit", loop.target.exit_code(), early.text)
        say(f"the run ends early: {early.text}")
    return early
