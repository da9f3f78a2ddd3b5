"""Runs a trial in virtual time, with the phases and the history of a live one, on a simulated device.

cost table -> recorder -> world (engine, device, server, clients) -> phases -> close in reverse order
"""

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.load.preflight import TargetProblem
from harness.plan.canary import canaries_of
from harness.plan.occurrences import Occurrence
from harness.plan.plan import Plan
from harness.record.recorder import Recorder
from harness.trial.fault_scheduler import FaultScheduler
from harness.trial.loop import Loop, Reason
from harness.trial.outcome import Say, Show, carry_out, recorded
from harness.trial.stop import Stop
from harness.virtual.answer_check import AnswerCheck
from harness.virtual.rows import Rows
from harness.virtual.stats import VirtualStats
from harness.virtual.target import VirtualTarget
from harness.virtual.turns import TurnWatch
from harness.virtual.world import World
from runtime.core.mechanism import mechanism, of_runtime
from runtime.device.costs import DEFAULT, CostTable, read_table

TURN_S = 0.25
"""Virtual time (s) between two ticks; a live loop looks at its faults as often."""


class VirtualClock:
    """Implements the clock port: a turn of the trial loop runs the world for TURN_S."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_ns(self) -> int:
        return self._world.time.now_ns()

    def pass_turn(self) -> None:
        self._world.run_for(TURN_S)


def drive(
    plan: Plan,
    hidden: Sequence[Occurrence],
    directory: Path,
    stop: Stop,
    show: Show,
    say: Say,
    *,
    slowing: float | None = None,
    costs: str = DEFAULT,
) -> Reason | None:
    """Run the plan and close its history. `hidden` are faults that are armed and not in the plan.

    With `slowing` a launch costs this share more after the planned length of the trial. `costs` is the name of a
    built-in cost table, or the path of a file. Raises ValueError when it is no cost table.
    """
    table = read_table(costs)
    say(table.words())
    recorder = Recorder(directory, 0)
    recorder.clock(0, time.time_ns(), 0, "harness", 0, 0)

    def trial() -> Reason | None:
        with _few_collections():
            return _trial(plan, hidden, directory, recorder, table, stop, show, say, slowing)

    return recorded(plan, recorder, _facts(table), say, trial)


def _trial(
    plan: Plan,
    hidden: Sequence[Occurrence],
    directory: Path,
    recorder: Recorder,
    table: CostTable,
    stop: Stop,
    show: Show,
    say: Say,
    slowing: float | None,
) -> Reason | None:
    scenario, rows, began_s = plan.scenario, Rows(recorder), time.perf_counter()
    canary = canaries_of(scenario, plan.capabilities)
    try:
        world = World(plan, rows, table, canary, slowing=slowing)
    except Exception as error:
        if not of_runtime(error):
            raise
        raise TargetProblem(f"the built-in runtime did not start: {mechanism(error)}") from error
    answers = AnswerCheck(rows, scenario.seed, canary, self_agreement=scenario.canary.reference == "self")
    target, stats = VirtualTarget(world), VirtualStats(world, answers)
    world.ended = stats.take
    faults = FaultScheduler((*plan.occurrences, *hidden))
    loop = Loop(scenario, directory, recorder, VirtualClock(world), target, world.load, stats, faults, stop)
    recorder.event(0, "server", "start", 0, "the engine in virtual time")
    with TurnWatch(world.turns, stop):
        early = carry_out(plan, loop, show, say)
        world.close()
    took_s, sent = time.perf_counter() - began_s, max(1, world.load.sent)
    virtual_s = world.time.now_ns() / 1e9
    each = f"{world.load.sent} requests, {took_s / sent * 1e6:.0f} us each"
    say(f"{virtual_s:.0f} virtual seconds in {took_s:.1f} s: {each}")
    return early


@contextmanager
def _few_collections() -> Iterator[None]:
    """Collect garbage less often: a run makes few reference cycles, and the default threshold of 700 objects costs a
    tenth of its time."""
    was = gc.get_threshold()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*was)


def _facts(table: CostTable) -> dict[str, str]:
    """Facts for the report about the source of its times: the cost table and its error."""
    facts = {"cost_table": table.words(), "target.model": "keyed tokens, no weights"}
    facts |= {f"cost_table.made_on.{key}": value for key, value in table.made_on.items()}
    return facts | {f"cost_table.error.{key}": f"{share:+.1%}" for key, share in table.error.items()}
