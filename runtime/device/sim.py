"""The simulated device: jobs run in order in virtual time, at the price of a cost table. No torch, no thread.

It runs the protocol of every device (launcher.py). Nothing waits: at a pause, the rest of the job is planned for the
moment at which its price is paid or its effect is over, or for that at which the fault lets go.
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
    """Lives in `time`, which must be the Env's clock."""

    def __init__(
        self,
        models: Mapping[str, StepModel],
        plane: Tags,
        env: Env,
        time: VirtualTime,
        costs: Costs,
        mover: Mover | None = None,
    ) -> None:
        assert env.clock is time, "a simulated device lives in its engine's time"
        super().__init__(models, plane, env, mover)
        self._time = time
        self._costs = costs
        self._jobs: deque[Job] = deque()
        self._running: Job | None = None

    @property
    def idle(self) -> bool:
        """Whether a launch would begin at once."""
        return self._running is None and not self._jobs and not self._closed and self._lost is None

    def skip(self, launches: int) -> int:
        """Count `launches` that fast-forward computes instead; returns the number of the last."""
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
            self._go_on(self._running, paid=False)

    def _go_on(self, job: Job, paid: bool) -> None:
        """`paid`: the device has been busy with it, so that time has passed since it began."""
        match self._advance(job):
            case None if job.error is not None and not paid:
                self._time.at(self._time.now_ns() + FLOOR_NS, lambda: self._over(job))
            case None:
                self._over(job)
            case Effect() as effect:
                self._when_over(effect, lambda: self._go_on(job, paid))
            case Copy() as copy:
                self._pay(job, self._costs.copy_ns(job.ticket.seq, len(copy.blocks)))
            case Work() as work:
                self._pay(job, self._costs.cost_ns(work))

    def _pay(self, job: Job, cost_ns: int) -> None:
        assert cost_ns > 0, f"a launch for {cost_ns} ns: time must go on"
        self._time.at(self._time.now_ns() + cost_ns, lambda: self._go_on(job, paid=True))

    def _over(self, job: Job) -> None:
        self._report(job)
        self._next()

    def _when_over(self, effect: Effect, call: Callable[[], None]) -> None:
        assert effect.kind in (Kind.DELAY, Kind.HANG), f"a simulated device has no process for {effect}"
        effect.then(call, self._time)
