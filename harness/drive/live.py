"""A live trial: real processes, real HTTP, real time. Everything started here is ended here, however it goes.

reference -> recorder -> target -> load process -> sampler -> phases -> all of it back in reverse -> twins
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness.drive import target as targets
from harness.drive.admin import AdminGone
from harness.drive.load import LoadDied, LoadProcess
from harness.drive.pulse import Pulse, Reason
from harness.drive.reference import compute_reference
from harness.drive.stop import Stop
from harness.drive.surroundings import surroundings
from harness.drive.switch import Switch
from harness.drive.target import Target
from harness.drive.trial import Trial
from harness.drive.twins import compare_twins
from harness.plan.occurrences import Occurrence
from harness.plan.plan import Plan
from harness.plan.timeline import PlannedPhase
from harness.record.recorder import HistoryFull, Recorder
from harness.telemetry.sampler import Sampler

Show = Callable[[Pulse, PlannedPhase, float], None]


@dataclass(frozen=True)
class Ending:
    """How a drive ended. `early` None: the plan was carried out."""

    early: Reason | None
    disk_full: bool = False


def drive(
    plan: Plan,
    hidden: Sequence[Occurrence],
    directory: Path,
    stop: Stop,
    show: Show,
    say: Callable[[str], None],
    *,
    allow_command: bool = False,
) -> Ending:
    """Run the plan and leave a closed history behind; `hidden` are faults that the plan does not speak of.
    `allow_command`: the scenario's own program may be started.

    Raises TargetProblem, ReferenceFailed or LoadDied before any load was sent.
    """
    reference = compute_reference(plan, directory, say) if "exact" in plan.capabilities else None
    recorder = Recorder(directory, time.monotonic_ns(), reference)
    for key, value in surroundings(plan).items():
        recorder.meta(key, value)
    try:
        with recorder:
            early = _drive(plan, hidden, directory, recorder, stop, show, say, allow_command)
            if "exact" in plan.capabilities and (early is None or early.by != "signal"):
                compare_twins(plan, recorder, say)
        return Ending(early)
    except HistoryFull as error:
        say(f"{error}. The run ends here; what was recorded before is judged.")
        return Ending(Reason("died", str(error)), disk_full=True)


def _drive(
    plan: Plan,
    hidden: Sequence[Occurrence],
    directory: Path,
    recorder: Recorder,
    stop: Stop,
    show: Show,
    say: Callable[[str], None],
    allow_command: bool,
) -> Reason | None:
    with ExitStack() as started:
        say(f"starting the target ({plan.scenario.target.kind})")
        target = targets.start(plan, directory, allow_command=allow_command)
        started.callback(_stop, target, recorder)
        for note in target.notes:
            say(f"about this target: {note}")
        for key, value in target.facts().items():
            recorder.meta(f"target.{key}", value)
        load = LoadProcess(plan, target, directory)
        started.callback(load.kill)
        sampler = _sampler(plan, directory, recorder, target, load)
        started.callback(sampler.stop)
        pulse = Pulse(plan.scenario, directory, recorder, target, load, _switch(plan, hidden, target), stop)
        pulse.on_new_pid = lambda pid: sampler.watch("server", pid)
        trial = Trial(pulse, plan.phases, lambda phase, elapsed_s: show(pulse, phase, elapsed_s))
        sampler.start()
        try:
            early = trial.run()
        except LoadDied as error:
            recorder.event(time.monotonic_ns(), "load", "exit", error.code, str(error))
            early = Reason("died", str(error))
        if early is not None:
            _tell(recorder, target, early)
            say(f"the run ends early: {early.text}")
        sampler.unwatch("load")
        sampler.unwatch("server")
        return early


def _stop(target: Target, recorder: Recorder) -> None:
    """Say it first, so that the judges can tell an end that we asked for from a death."""
    if target.gone() is None:
        recorder.event(time.monotonic_ns(), "harness", "target_stop", None, "asked to end by the harness")
    target.stop()


def _sampler(plan: Plan, directory: Path, recorder: Recorder, target: Target, load: LoadProcess) -> Sampler:
    sampler = Sampler(recorder, directory, target.metrics_url, plan.scenario.target.metrics_preset)
    sampler.watch("harness", os.getpid())
    sampler.watch("load", load.pid)
    if target.pid is not None:
        sampler.watch("server", target.pid)
    else:
        sampler.absent("server", "the target's process is not known: give target.pid")
    return sampler


def _switch(plan: Plan, hidden: Sequence[Occurrence], target: Target) -> Switch:
    """A target that can't be armed has a plan without faults."""
    return Switch((*plan.occurrences, *hidden) if target.admin is not None else (), target.admin or _Nobody())


class _Nobody:
    """The injector of a target that has none."""

    def arm(self, spec: object) -> None:
        raise AdminGone("this target can't be armed")

    def heal(self, fault: str) -> None:
        raise AdminGone("this target can't be armed")

    def states(self) -> list[dict[str, object]]:
        return []


def _tell(recorder: Recorder, target: Target, early: Reason) -> None:
    now_ns = time.monotonic_ns()
    recorder.event(now_ns, "harness", f"ended_by_{early.by}", None, early.text)
    if target.gone() is not None:
        recorder.event(now_ns, "server", "exit", target.exit_code(), early.text)
