"""The simulated device: jobs run in order in virtual time, with durations from a cost model. No torch, no thread.

It follows the protocol of all devices (launcher.py) and never blocks. At a pause, the rest of the job is scheduled for
the end of the job's duration, or for the time at which the fault effect ends or is released.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping

from faults import Effect, Kind
from runtime.core.env import Env
from runtime.core.work import Copy, Work
from runtime.device.costs import Costs
from runtime.device.decode_costs import FLOOR_NS
from runtime.device.launcher import Job, Launcher
from runtime.device.ports import Mover, StepModel, Tags
from runtime.device.virtual_time import VirtualTime


class SimDevice(Launcher):
    """Runs jobs in `time`, which must be the Env's clock."""

    def __init__(
        self,
        models: Mapping[str, StepModel],
        plane: Tags,
        env: Env,
        time: VirtualTime,
        costs: Costs,
        mover: Mover | None = None,
    ) -> None:
        assert env.clock is time, "a simulated device runs on its engine's clock"
        super().__init__(models, plane, env, mover)
        self._time = time
        self._costs = costs
        self._jobs: deque[Job] = deque()
        self._running: Job | None = None

    @property
    def idle(self) -> bool:
        """True when a launch would begin at once."""
        return self._running is None and not self._jobs and not self._closed and self._lost is None

    def skip(self, launches: int) -> int:
        """Count `launches` that fast-forward computes itself. Return the ticket number of the last one."""
        self._seq += launches
        return self._seq

    # -- one after the other ------------------------------------------------------------------------------------------

    def _start(self, job: Job) -> None:
        self._jobs.append(job)
        if self._running is None:
            self._next()

    def _waiting(self) -> Iterator[Job]:
        while self._jobs:
            yield self._jobs.popleft()

    def _next(self) -> None:
        self._running = self._jobs.popleft() if self._jobs else None
        if self._running is not None:
            self._resume(self._running, paid=False)

    def _resume(self, job: Job, paid: bool) -> None:
        """Run `job` up to its next pause. `paid`: its duration has passed already."""
        match self._advance(job):
            case None if job.error is not None and not paid:
                self._time.at(self._time.now_ns() + FLOOR_NS, lambda: self._over(job))
            case None:
                self._over(job)
            case Effect() as effect:
                self._when_over(effect, lambda: self._resume(job, paid))
            case Copy() as copy:
                self._pay(job, self._costs.copy_ns(job.ticket.seq, len(copy.blocks)))
            case Work() as work:
                self._pay(job, self._costs.cost_ns(work))

    def _pay(self, job: Job, cost_ns: int) -> None:
        assert cost_ns > 0, f"a launch takes {cost_ns} ns; it must take at least 1"
        self._time.at(self._time.now_ns() + cost_ns, lambda: self._resume(job, paid=True))

    def _over(self, job: Job) -> None:
        self._report(job)
        self._next()

    def _when_over(self, effect: Effect, call: Callable[[], None]) -> None:
        assert effect.kind in (Kind.DELAY, Kind.HANG), f"a simulated device can't carry out {effect}"
        effect.then(call, self._time)
