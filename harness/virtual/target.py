"""The target of a trial in virtual time: an engine in this process. Faults and audits are direct calls."""

from typing import Any

from faults import SpecError
from faults.spec import FaultSpec
from harness.trial.ports import AdminGone
from harness.virtual.world import World


class VirtualAdmin:
    """Implements the admin port of a trial."""

    def __init__(self, world: World) -> None:
        self._world = world

    def heartbeat(self) -> None:
        self._world.faults.beat()

    def arm(self, spec: FaultSpec) -> None:
        try:
            self._world.faults.arm([spec])
        except SpecError as error:  # the live server answers with 400
            raise AdminGone(str(error)) from error

    def heal(self, fault: str) -> None:
        self._world.faults.heal(fault, "harness")

    def states(self) -> list[dict[str, Any]]:
        """See Injector."""
        return [
            {"id": one.id, "n": one.n, "state": one.state, "first_ns": one.first_ns, "heal_ns": one.heal_ns}
            for one in self._world.faults.states()
        ]

    def audit(self, scope: str) -> None:
        self._world.rows.audit(self._world.audit(scope))


class VirtualTarget:
    """Implements the target port. It has no process and no metrics page; the world samples its own figures."""

    metrics_url = None
    pid = None

    def __init__(self, world: World) -> None:
        self.admin = VirtualAdmin(world)
        self._world = world

    def tick(self, now_ns: int) -> None:
        """Heal the faults whose time is over, as the live server does by its own clock."""
        if self._world.faults.armed:
            self._world.faults.tick(now_ns)

    def restart(self) -> None:
        """See Target."""
        raise AssertionError("the plan refuses a restart in virtual time: there is no process to start again")

    def gone(self) -> str | None:
        """See Target. A virtual server never restarts."""
        fatal = self._world.fatal
        return None if fatal is None else f"the engine is lost: {fatal}"

    def broke(self, error: BaseException) -> bool:
        """See Target."""
        return self._world.broke(error)

    def exit_code(self) -> None:
        return None
