"""The simulated device: launches run in order in virtual time, at the price of a cost table. No torch, no thread.

    launch --before--> [verify] --in_flight--> ... cost ... --> model, tags --after--> complete --> ledger
    copy   --before-->          --in_flight--> ... cost ... --> KV and tags --after-->          --> ledger

It crosses the same fault points in the same places as `CpuDevice`, with the same checks and stamps of tags. Nothing
waits: a delay or a hang is a thing planned for `effect.due_ns`, or for the moment at which the fault lets go.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from faults import Effect, Kind, Point
from runtime.core.env import Env
from runtime.core.errors import DeviceLost, LaunchError, RuntimeFailure
from runtime.core.ports import Ticket
from runtime.core.work import Breach, Claim, Copy, StepResult, Work
from runtime.device.costs import Costs
from runtime.device.points import DEVICE_COMPLETE, DEVICE_LAUNCH, cross_copy, phase_of
from runtime.device.ports import Mover, StepModel, Tags
from runtime.device.stretch import FLOOR_NS
from runtime.device.virtual_time import VirtualTime


@dataclass(slots=True)
class _Launch:
    ticket: Ticket
    work: Work
    reads: Sequence[Claim]
    effect: Effect | None
    breaches: tuple[Breach, ...] = ()
    """Filled when it begins: what the tag plane said before anything was written."""


@dataclass(slots=True)
class _Copying:
    ticket: Ticket
    copy: Copy
    lost: bool = False
    """A fault lets nothing be moved."""


class SimDevice:
    """Implements `runtime.core.ports.Device` over `time`, which must be the Env's clock. Without `mover` it refuses
    copies."""

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
        self._models = dict(models)
        self._plane = plane
        self._env = env
        self._time = time
        self._costs = costs
        self._mover = mover
        self._queue: deque[_Launch | _Copying] = deque()
        self._running: _Launch | _Copying | None = None
        self._seq = 0
        self._closed = False
        self._lost: DeviceLost | None = None

    def launch(self, work: Work, reads: Sequence[Claim], writes: Sequence[int]) -> Ticket:
        """Queue one step and return at once. Raises LaunchError or DeviceLost when nothing will run."""
        if self._lost is not None:
            raise DeviceLost(str(self._lost))
        if work.model_key not in self._models:
            known = ", ".join(repr(key) for key in self._models)
            raise LaunchError(f"no model {work.model_key!r} on this device; it has {known}")
        effect = self._cross(DEVICE_LAUNCH, work, "before")
        if self._closed:
            raise LaunchError("the device is closed")
        ticket = self._ticket(work)
        self._put(_Launch(ticket, work, reads, effect))
        return ticket

    def copy(self, copy: Copy) -> Ticket:
        """Queue a copy and return at once. Raises LaunchError or DeviceLost when nothing will be copied."""
        if self._lost is not None:
            raise DeviceLost(str(self._lost))
        if self._mover is None:
            raise LaunchError("this device has no host memory to copy to")
        if self._closed:
            raise LaunchError("the device is closed")
        ticket = self._ticket(copy)
        self._put(_Copying(ticket, copy))
        return ticket

    # -- launches that somebody else computes (runtime/leap) ----------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether a launch would begin at once."""
        return self._running is None and not self._queue and not self._closed and self._lost is None

    def begin(self, work: Work) -> Ticket:
        """A launch is under way until `leave` or `resume`. Only when idle."""
        assert self.idle, "a launch is under way already"
        ticket = self._ticket(work)
        self._running = _Launch(ticket, work, (), None)
        return ticket

    def leapt(self, launches: int) -> None:
        """So many more were launched, one behind the other."""
        self._seq += launches

    def leave(self) -> None:
        """They are done, and who launched them knows it."""
        self._next()

    def resume(self, ticket: Ticket, work: Work, due_ns: int) -> None:
        """It is not so simple any more: it goes on as any launch of `work` that is computed at `due_ns`."""
        ticket.work = work
        launch = self._running = _Launch(ticket, work, (), None)
        if due_ns == self._time.now_ns():
            self._compute(launch)
        else:
            self._time.at(due_ns, lambda: self._compute(launch))

    # -- one after the other ------------------------------------------------------------------------------------------

    def _ticket(self, work: Work | Copy) -> Ticket:
        self._seq += 1
        return Ticket(seq=self._seq, work=work, launched_ns=self._time.now_ns())

    def _put(self, job: _Launch | _Copying) -> None:
        self._queue.append(job)
        if self._running is None:
            self._next()

    def close(self) -> None:
        """Refuse launches from now on and fail those still queued. One that hangs ends when its fault does."""
        if self._closed:
            return
        self._closed = True
        left, self._queue = self._queue, deque()
        for job in left:
            self._finish(job.ticket, None, LaunchError("the device was closed before this launch began"))

    def _next(self) -> None:
        self._running = self._queue.popleft() if self._queue else None
        match self._running:
            case _Launch() as launch:
                self._after(launch.effect, lambda: self._begin(launch))
            case _Copying() as copying:
                self._begin_copy(copying)

    def _begin(self, launch: _Launch) -> None:
        work = launch.work
        launch.breaches = self._plane.verify(work, launch.reads)
        try:
            held = self._cross(DEVICE_LAUNCH, work, "in_flight")
        except RuntimeFailure as failure:
            error = failure
            self._time.at(self._time.now_ns() + FLOOR_NS, lambda: self._report(launch, None, error))
            return
        self._after(held, lambda: self._work(launch))

    def _work(self, launch: _Launch) -> None:
        if self._closed:
            self._report(launch, None, LaunchError("the device was closed while this launch was held up"))
            return
        cost_ns = self._costs.cost_ns(launch.work)
        assert cost_ns > 0, f"a launch for {cost_ns} ns: time must go on"
        self._time.at(self._time.now_ns() + cost_ns, lambda: self._compute(launch))

    def _compute(self, launch: _Launch) -> None:
        work = launch.work
        try:
            sampled = self._models[work.model_key].run(work)
            self._plane.stamp(work)
            held = self._cross(DEVICE_LAUNCH, work, "after")
        except RuntimeFailure as failure:
            self._report(launch, None, failure)
            return
        except Exception as failure:
            error = LaunchError(f"{work}: {type(failure).__name__}: {failure}")
            error.__cause__ = failure
            self._report(launch, None, error)
            return
        result = StepResult(sampled, launch.breaches)
        self._after(held, lambda: self._report(launch, result, None))

    def _report(self, launch: _Launch, result: StepResult | None, error: RuntimeFailure | None) -> None:
        """The work is over; the news of it may still be held up, while the device goes on."""
        if isinstance(error, DeviceLost):
            self._lost = error
        held = self._cross(DEVICE_COMPLETE, launch.work, "before")
        self._after(held, lambda: self._finish(launch.ticket, result, error))
        self._next()

    # -- copies -------------------------------------------------------------------------------------------------------

    def _begin_copy(self, copying: _Copying) -> None:
        self._cross_copy(copying, "before", lambda: self._cross_copy(copying, "in_flight", lambda: self._pay(copying)))

    def _pay(self, copying: _Copying) -> None:
        if self._closed:
            self._copied(copying, LaunchError("the device was closed while this copy was held up"))
            return
        cost_ns = self._costs.copy_ns(copying.ticket.seq, len(copying.copy.blocks))
        self._time.at(self._time.now_ns() + cost_ns, lambda: self._move(copying))

    def _move(self, copying: _Copying) -> None:
        assert self._mover is not None
        if not copying.lost:
            self._mover.move(copying.copy)
        self._cross_copy(copying, "after", lambda: self._copied(copying, None))

    def _cross_copy(self, copying: _Copying, place: str, go_on: Callable[[], None]) -> None:
        try:
            held = cross_copy(self._env, copying.copy, place)
        except RuntimeFailure as failure:
            error = failure
            self._time.at(self._time.now_ns() + FLOOR_NS, lambda: self._copied(copying, error))
            return
        if held is not None and held.kind is Kind.DROP:
            copying.lost, held = True, None
        self._after(held, go_on)

    def _copied(self, copying: _Copying, error: RuntimeFailure | None) -> None:
        self._finish(copying.ticket, None, error)
        self._next()

    # -- faults -------------------------------------------------------------------------------------------------------

    def _after(self, held: Effect | None, go_on: Callable[[], None]) -> None:
        """Go on now, or once what the fault does is over or released."""
        if held is None:
            go_on()
            return
        assert held.kind in (Kind.DELAY, Kind.HANG), f"a simulated device has no process for {held}"
        effect, over = held, False

        def wake() -> None:
            nonlocal over
            if not over:
                over = True
                effect.wait(0)  # the bus learns here that it is over, rather than at its next tick
                go_on()

        self._time.at(max(effect.due_ns, self._time.now_ns()), wake)
        effect.on_release(lambda: self._time.at(self._time.now_ns(), wake))

    def _cross(self, point: Point, work: Work, place: str) -> Effect | None:
        faults = self._env.faults
        if not faults.armed:
            return None
        return faults.fire(
            point, place=place, step=work.step, request=work.request_ids[0] if work.rows else None, phase=phase_of(work)
        )

    def _finish(self, ticket: Ticket, result: StepResult | None, error: Exception | None) -> None:
        assert not ticket.done, f"launch {ticket.seq} is finished twice"
        ticket.result, ticket.error = result, error
        ticket.done_ns = self._time.now_ns()
        self._env.ledger.complete(ticket)
