"""The ports of a trial: clock, target, load and stats.

`harness.live` and `harness.virtual` each implement all of it.
"""

from typing import Any, Protocol

from harness.trial.fault_scheduler import Injector


class AdminGone(Exception):
    """The admin port did not answer, or refused."""


class LoadDied(Exception):
    """The load process ended or broke; the run can't be called a trial of the target. `code` is None if it lives."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


class Clock(Protocol):
    """The one clock of a run."""

    def now_ns(self) -> int:
        """The present."""
        ...

    def pass_turn(self) -> None:
        """Let the time between two ticks of the loop pass."""
        ...


class Admin(Injector, Protocol):
    """The way into a target that is ours. Every call may raise AdminGone."""

    def heartbeat(self) -> None:
        """Tell the target that we live; without this it heals every fault by itself."""
        ...

    def audit(self, scope: str) -> Any:
        """Make the target compare what it holds with what it owes, and record the rows."""
        ...


class Target(Protocol):
    """The runtime on trial."""

    @property
    def admin(self) -> Admin | None:
        """None for a target that is seen from outside only."""
        ...

    @property
    def metrics_url(self) -> str | None:
        """The page that its gauges are sampled from; None when there is none."""
        ...

    @property
    def pid(self) -> int | None:
        """The process that serves now; None when it is not known, or is not one."""
        ...

    def tick(self, now_ns: int) -> None:
        """Take what has happened in it since the last tick."""
        ...

    def gone(self) -> str | None:
        """Why it will never serve again; None while it may."""
        ...

    def exit_code(self) -> int | None:
        """The code of the process that we started; None while it runs, or when we started none."""
        ...


class Load(Protocol):
    """Who sends the requests."""

    @property
    def idle(self) -> bool:
        """The load is paused, and no request is open."""
        ...

    @property
    def finished(self) -> bool:
        """The load was stopped, and every reply is written."""
        ...

    @property
    def breaker(self) -> str | None:
        """Why the load stopped by itself; None while it has not."""
        ...

    def begin(self, t0_ns: int) -> None:
        """Start the schedule at `t0_ns` of the clock."""
        ...

    def phase(self, name: str, n: int) -> None:
        """Note that a phase begins."""
        ...

    def pause(self) -> None:
        """Send no more until `resume`."""
        ...

    def resume(self) -> None:
        """Go on where the schedule stood still."""
        ...

    def stop(self, drain_s: float) -> None:
        """Send no more, and give open requests `drain_s`."""
        ...

    def tick(self) -> None:
        """Take what has happened in it since the last tick. Raises LoadDied."""
        ...
