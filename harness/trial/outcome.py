"""Carries out a trial of either drive: writes the facts, runs the phases, and closes the history."""

from collections.abc import Callable, Mapping

from harness.plan.plan import Plan
from harness.plan.timeline import PlannedPhase
from harness.record.recorder import HistoryFull, Recorder
from harness.trial.environment import environment
from harness.trial.loop import Loop, Reason
from harness.trial.phases import Phases
from harness.trial.ports import LoadDied

Say = Callable[[str], None]
Show = Callable[[Loop, PlannedPhase, float], None]
"""Called at every tick with the loop, the phase, and the seconds since the phase began."""


def recorded(
    plan: Plan, recorder: Recorder, facts: Mapping[str, str], say: Say, trial: Callable[[], Reason | None]
) -> Reason | None:
    """Write the facts into the history, run `trial`, and close the history in every case.

    Returns the reason for an early end; None when the whole plan was carried out.
    """
    for key, value in {**environment(plan), **facts}.items():
        recorder.meta(key, value)
    try:
        with recorder:
            return trial()
    except HistoryFull as error:
        say(f"{error}. The run ends early; the recorded part is judged.")
        return Reason("died", str(error))


def carry_out(plan: Plan, loop: Loop, show: Show, say: Say) -> Reason | None:
    """Run all phases. If the run ends early, write the reason and the exit of a dead server into the history."""
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
