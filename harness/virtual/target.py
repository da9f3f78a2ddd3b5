"""The target of a trial in virtual time: an engine in this process, armed and audited by direct calls."""

from typing import Any

from faults import SpecError
from faults.spec import FaultSpec
from harness.trial.ports import AdminGone
from harness.virtual.world import World


class VirtualAdmin:
    """The admin port of a virtual server: arm, heal, states, audit."""

    def __init__(self, world: World) -> None:
        self._world = world

    def heartbeat(self) -> None:
        self._world.faults.beat()

    def arm(self, spec: FaultSpec) -> None:
        try:
            self._world.faults.arm([spec])
        except SpecError as error:  # as the live server answers with 400
            raise AdminGone(str(error)) from error

    def heal(self, fault: str) -> None:
        self._world.faults.heal(fault, "harness")

    def states(self) -> list[dict[str, Any]]:
        """As far as a fault scheduler looks at them."""
        return [
            {"id": one.id, "n": one.n, "state": one.state, "first_ns": one.first_ns, "heal_ns": one.heal_ns}
            for one in self._world.faults.states()
        ]

    def audit(self, scope: str) -> None:
        self._world.rows.audit(self._world.audit(scope))


class VirtualTarget:
    """There is no process behind it, and no page of metrics: the world samples its own figures."""

    metrics_url = None
    pid = None

    def __init__(self, world: World) -> None:
        self.admin = VirtualAdmin(world)
        self._world = world

    def tick(self, now_ns: int) -> None:
        """Faults that run out by time heal here, as the live server's own clock heals them."""
        if self._world.faults.armed:
            self._world.faults.tick(now_ns)

    def gone(self) -> str | None:
        """A virtual server that called itself lost does not start again."""
        fatal = self._world.engine.fatal
        return None if fatal is None else f"the engine is lost: {fatal}"

    def exit_code(self) -> None:
        return None
