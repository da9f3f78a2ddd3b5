"""The pulse of a virtual trial: what a live one does every beat, on a clock that jumps. Phases are the live trial's.

faults run out -> faults due -> history grows -> reasons to end early
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from faults.spec import FaultSpec
from harness.drive.load import LoadProcess
from harness.drive.pulse import Pulse, Reason
from harness.drive.stop import Stop
from harness.drive.switch import Switch
from harness.drive.tally import WINDOW_S, Heard
from harness.drive.target import Target
from harness.record.recorder import Recorder
from harness.virtual.answers import Answers
from harness.virtual.client import Client
from harness.virtual.world import World
from scenarios.schema import Scenario


class Hand:
    """What the admin port is to a live server: arm, heal, states, audit."""

    def __init__(self, world: World) -> None:
        self._world = world

    def beat(self) -> None:
        """No heartbeat is needed: who would arm faults and be gone is the same process."""

    def arm(self, spec: FaultSpec) -> None:
        self._world.leap.hand_over()
        self._world.faults.arm([spec])

    def heal(self, fault: str) -> None:
        self._world.faults.heal(fault, "harness")

    def states(self) -> list[dict[str, Any]]:
        """As far as a switch looks at them."""
        return [
            {"id": one.id, "n": one.n, "state": one.state, "first_ns": one.first_ns, "heal_ns": one.heal_ns}
            for one in self._world.faults.states()
        ]

    def audit(self, scope: str) -> None:
        self._world.leap.hand_over()  # an audit may end who holds damaged KV
        self._world.rows.audit(self._world.audit(scope))


class VirtualTarget:
    """The part of a live target that phases look at."""

    metrics_url = None
    pid = None

    def __init__(self, world: World) -> None:
        self.admin = Hand(world)
        self._world = world

    def gone(self) -> str | None:
        """A virtual server that called itself lost does not start again."""
        fatal = self._world.engine.fatal
        return None if fatal is None else f"the engine is lost: {fatal}"

    def tick(self) -> None:
        """No process to look after."""


@dataclass
class VirtualPulse(Pulse):
    """Made by `pulse_of`."""

    world: World = field(kw_only=True)
    answers: Answers = field(kw_only=True)

    def beat(self) -> Reason | None:
        """Once round. Raises HistoryFull."""
        now_ns = self.clock_ns()
        if self.world.faults.armed:
            self.world.faults.tick(now_ns)
        if self.trial_since_ns is not None:
            self.switch.tick((now_ns - self.trial_since_ns) / 1e9)
        self.world.rows.flush()
        self.tally.sensors = self.world.rows.latest
        recent = self.tally.recent
        while recent and recent[0].end_ns < now_ns - WINDOW_S * 1e9:
            recent.popleft()
        return self._reason_now(now_ns)

    def hear(self, client: Client) -> None:
        """A request has ended."""
        assert client.outcome is not None
        assert client.end_ns is not None
        armed = self.world.faults.armed
        self.answers.hold(client, beside_fault=armed)
        if client.asked.kind not in ("load", "probe"):
            return
        self.tally.counts[client.outcome.value] += 1
        first_s = None if client.first_ns is None else (client.first_ns - client.intended_ns) / 1e9
        e2e_s = (client.end_ns - client.intended_ns) / 1e9
        heard = Heard(client.end_ns, client.outcome.value, first_s, e2e_s, len(client.tokens), not armed)
        self.tally.recent.append(heard)

    def _reason_now(self, now_ns: int) -> Reason | None:
        """Figures are worked out only for a scenario that has rules about them."""
        if self.stop.asked is not None:
            return Reason("signal", f"{self.stop.asked} received")
        if (gone := self.target.gone()) is not None:
            return Reason("died", gone)
        if self.load.breaker is not None:
            return Reason("abort", f"the load stopped itself: {self.load.breaker}")
        if self.scenario.aborts and (rule := self._abort.tick(now_ns, self.tally.figures())) is not None:
            return Reason("abort", rule)
        return self._over_limits(now_ns)


def pulse_of(
    scenario: Scenario,
    directory: Path,
    recorder: Recorder,
    world: World,
    answers: Answers,
    switch_of: Callable[[Hand], Switch],
    stop: Stop,
) -> VirtualPulse:
    """A pulse whose target and load are those of `world`."""
    target = VirtualTarget(world)
    # Phases ask a target and a load for what both kinds have; neither is a process here.
    made = VirtualPulse(
        scenario,
        directory,
        recorder,
        cast(Target, target),
        cast(LoadProcess, world.crowd),
        switch_of(target.admin),
        stop,
        clock_ns=world.time.now_ns,
        world=world,
        answers=answers,
    )
    world.ended = made.hear
    return made
