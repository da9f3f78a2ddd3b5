"""A virtual trial: the plan of a live one, in the time of a simulated device. Same phases, same faults, same history.

cost table -> recorder -> world (engine, device, server, clients) -> phases -> all of it back in reverse
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.drive.live import Ending, Show
from harness.drive.pulse import Reason
from harness.drive.stop import Stop
from harness.drive.surroundings import surroundings
from harness.drive.switch import Switch
from harness.drive.trial import Trial
from harness.load.breaker import Breaker, Politeness
from harness.plan.canary import canaries_of
from harness.plan.occurrences import Occurrence
from harness.plan.plan import Plan
from harness.record.recorder import HistoryFull, Recorder
from harness.virtual.answers import Answers
from harness.virtual.pulse import pulse_of
from harness.virtual.rows import Rows
from harness.virtual.world import World
from runtime.device.costs import DEFAULT, CostTable, read_table

TURN_S = 0.25
"""Between two looks at phases and faults, as often as a live pulse looks at the switch; no leap goes past one."""


def drive(
    plan: Plan,
    hidden: Sequence[Occurrence],
    directory: Path,
    stop: Stop,
    show: Show,
    say: Callable[[str], None],
    *,
    slowing: float | None = None,
    costs: str = DEFAULT,
) -> Ending:
    """Run the plan and leave a closed history behind; `hidden` are faults that the plan does not speak of, and with
    `slowing` launches cost this share more after a trial's time. `costs` is a table of ours by name, or a file by its
    path. Raises ValueError when it is no cost table."""
    table = read_table(costs)
    say(table.words())
    recorder = Recorder(directory, 0)
    for key, value in {**surroundings(plan), **_facts(table)}.items():
        recorder.meta(key, value)
    recorder.clock(0, time.time_ns(), 0, "harness", 0, 0)
    try:
        with recorder, _few_collections():
            return Ending(_drive(plan, hidden, directory, recorder, table, stop, show, say, slowing))
    except HistoryFull as error:
        say(f"{error}. The run ends here; what was recorded before is judged.")
        return Ending(Reason("died", str(error)), disk_full=True)


def _drive(
    plan: Plan,
    hidden: Sequence[Occurrence],
    directory: Path,
    recorder: Recorder,
    table: CostTable,
    stop: Stop,
    show: Show,
    say: Callable[[str], None],
    slowing: float | None,
) -> Reason | None:
    scenario, rows, began_s = plan.scenario, Rows(recorder), time.perf_counter()
    canary = canaries_of(scenario, plan.capabilities)
    world = World(plan, rows, table, _gate(plan), canary, slowing=slowing)
    answers = Answers(rows, world.key, canary, by_itself=scenario.canary.reference == "self")
    occurrences = (*plan.occurrences, *hidden)
    pulse = pulse_of(scenario, directory, recorder, world, answers, lambda hand: Switch(occurrences, hand), stop)
    trial = Trial(
        pulse, plan.phases, lambda phase, elapsed_s: show(pulse, phase, elapsed_s), lambda _: world.run_for(TURN_S)
    )
    recorder.event(0, "server", "start", 0, "the engine in virtual time")
    early = trial.run()
    world.close()
    if early is not None:
        recorder.event(world.time.now_ns(), "harness", f"ended_by_{early.by}", None, early.text)
        say(f"the run ends early: {early.text}")
    took_s, sent = time.perf_counter() - began_s, max(1, world.crowd.sent)
    virtual_s = world.time.now_ns() / 1e9
    each = f"{world.crowd.sent} requests, {took_s / sent * 1e6:.0f} us each"
    say(f"{virtual_s:.0f} virtual seconds in {took_s:.1f} s: {each}")
    return early


@contextmanager
def _few_collections() -> Iterator[None]:
    """Nothing here leaves cycles behind by the thousand, and looking for them every 700 objects takes a tenth of a
    run."""
    was = gc.get_threshold()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*was)


def _facts(table: CostTable) -> dict[str, str]:
    """What a reader of the report must know of its times: which table, and how far it was off."""
    facts = {"cost_table": table.words(), "target.model": "keyed tokens, no weights"}
    facts |= {f"cost_table.made_on.{key}": value for key, value in table.made_on.items()}
    return facts | {f"cost_table.error.{key}": f"{share:+.1%}" for key, share in table.error.items()}


def _gate(plan: Plan) -> Breaker | None:
    """The scenario's own limits; the manners that a foreign server is due concern nobody here."""
    limits = plan.scenario.limits
    given = (limits.requests, limits.tokens, limits.in_flight, limits.rate)
    if all(each is None for each in given):
        return None
    return Breaker(
        Politeness(
            None,
            honour_retry_after=False,
            bad_share_max=None,
            slow_factor_max=None,
            requests_max=limits.requests,
            tokens_max=limits.tokens,
            in_flight_max=limits.in_flight,
            rate_max_per_s=limits.rate,
        ),
        0,
    )
