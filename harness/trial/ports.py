"""The ports of a trial: clock, target, load and stats.

`harness.live` and `harness.virtual` each implement all of it.
"""

from typing import Any, Protocol

from harness.trial.fault_scheduler import Injector


class AdminGone(Exception):
    """The admin port did not answer, or refused the call."""


class RestartFailed(Exception):
    """The target was ended and did not start again. The text says why."""


class LoadDied(Exception):
    """The load process ended or failed, so the run is no test of the target. `code` is None while it is alive."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


class Clock(Protocol):
    """The one clock of a run."""

    def now_ns(self) -> int:
        """The time now (ns)."""
        ...

    def pass_turn(self) -> None:
        """Wait until the next tick of the loop."""
        ...


class Admin(Injector, Protocol):
    """The admin port of the built-in runtime. Every call may raise AdminGone."""

    def heartbeat(self) -> None:
        """Report that the harness is alive; without heartbeats the target heals every fault by itself."""
        ...

    def audit(self, scope: str) -> Any:
        """Make the target compare the resources it holds with their owners, and record the result as rows."""
        ...


class Target(Protocol):
    """The runtime under test."""

    @property
    def admin(self) -> Admin | None:
        """The admin port; None for a target other than the built-in runtime."""
        ...

    @property
    def metrics_url(self) -> str | None:
        """The URL of the Prometheus page; None without one."""
        ...

    @property
    def pid(self) -> int | None:
        """The process id of the serving process; None when it is unknown or the target has no process."""
        ...

    def tick(self, now_ns: int) -> None:
        """Process the target's events since the last tick."""
        ...

    def restart(self) -> None:
        """End the target in good order, start it again and wait until it serves. Raises RestartFailed."""
        ...

    def gone(self) -> str | None:
        """The reason why the target will never serve again; None while it may."""
        ...

    def broke(self, error: BaseException) -> bool:
        """Return whether the runtime under test, which runs in this process, raised `error` or does not come back. That
        is then recorded, and `gone` gives the reason."""
        ...

    def exit_code(self) -> int | None:
        """The exit code of the process that the harness started; None while it runs, or when it started none."""
        ...


class Load(Protocol):
    """The sender of the requests."""

    @property
    def idle(self) -> bool:
        """The load is paused, and no request is open."""
        ...

    @property
    def finished(self) -> bool:
        """The load was stopped, and every reply is recorded."""
        ...

    @property
    def breaker(self) -> str | None:
        """The reason why the load stopped by itself; None while it has not."""
        ...

    def begin(self, t0_ns: int) -> None:
        """Start the schedule at `t0_ns` of the clock."""
        ...

    def phase(self, name: str, n: int) -> None:
        """Record that a phase begins."""
        ...

    def pause(self) -> None:
        """Send no requests until `resume`."""
        ...

    def resume(self) -> None:
        """Continue the schedule at the point of the pause."""
        ...

    def stop(self, drain_s: float) -> None:
        """Send no more requests, and cancel open requests after `drain_s` seconds."""
        ...

    def tick(self) -> None:
        """Process the load's events since the last tick. Raises LoadDied."""
        ...
