"""A trial in real time, with real processes and HTTP. Every process started here is ended here in every case.

reference -> recorder -> target -> load process -> sampler -> phases -> stop all in reverse order -> twins
"""

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from harness.live import target as targets
from harness.live.load import LoadProcess
from harness.live.recorded_stats import RecordedStats
from harness.live.reference import compute_reference
from harness.live.target import LiveTarget
from harness.live.twins import compare_twins
from harness.plan.occurrences import Occurrence
from harness.plan.plan import Plan
from harness.record.recorder import Recorder
from harness.telemetry.sampler import Sampler
from harness.trial.fault_scheduler import FaultScheduler
from harness.trial.loop import Loop, Reason
from harness.trial.outcome import Say, Show, carry_out, recorded
from harness.trial.stop import Stop

TURN_S = 0.1


class WallClock:
    """CLOCK_MONOTONIC; `pass_turn` sleeps for TURN_S."""

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def pass_turn(self) -> None:
        time.sleep(TURN_S)


def drive(
    plan: Plan,
    hidden: Sequence[Occurrence],
    directory: Path,
    stop: Stop,
    show: Show,
    say: Say,
    *,
    allow_command: bool = False,
) -> Reason | None:
    """Run the plan and close its history. `hidden` holds the undeclared faults, which the plan does not contain.
    `allow_command` permits the start of the scenario's target.command.

    Raises TargetProblem, ReferenceFailed or LoadDied before any load was sent.
    """
    exact = "exact" in plan.capabilities
    reference = compute_reference(plan, directory, say) if exact else None
    recorder = Recorder(directory, time.monotonic_ns(), reference)

    def trial() -> Reason | None:
        with ExitStack() as started:
            say(f"starting the target ({plan.scenario.target.kind})")
            target = targets.start(plan, directory, allow_command=allow_command)
            started.callback(_stop, target, recorder)
            for note in target.answer.notes:
                say(f"note: {note}")
            for key, value in target.facts().items():
                recorder.meta(f"target.{key}", value)
            load = LoadProcess(plan, target, directory)
            started.callback(load.kill)
            sampler = _sampler(plan, directory, recorder, target, load)
            started.callback(sampler.stop)
            faults, stats = FaultScheduler((*plan.occurrences, *hidden)), RecordedStats(recorder)
            loop = Loop(plan.scenario, directory, recorder, WallClock(), target, load, stats, faults, stop)
            loop.on_new_pid = lambda pid: sampler.watch("server", pid)
            sampler.start()
            early = carry_out(plan, loop, show, say)
            sampler.unwatch("load")
            sampler.unwatch("server")
        if exact and (early is None or early.by != "signal"):
            compare_twins(plan, recorder, say)  # after the end of load and server
        return early

    return recorded(plan, recorder, {}, say, trial)


def _stop(target: LiveTarget, recorder: Recorder) -> None:
    """Record the stop before it happens, so that the judges can distinguish it from a crash."""
    if target.gone() is None:
        recorder.event(time.monotonic_ns(), "harness", "target_stop", None, "stopped by the harness")
    target.stop()


def _sampler(plan: Plan, directory: Path, recorder: Recorder, target: LiveTarget, load: LoadProcess) -> Sampler:
    sampler = Sampler(recorder, directory, target.metrics_url, plan.scenario.target.metrics_preset)
    sampler.watch("harness", os.getpid())
    sampler.watch("load", load.pid)
    if target.pid is not None:
        sampler.watch("server", target.pid)
    else:
        sampler.absent("server", "the target's process is not known: give target.pid")
    return sampler
