"""The protocol of launches and copies on every device: tickets, fault points, pauses, close, and lost devices.

    engine      launch(work) --before, may refuse--> queue       copy(copy) --> queue      both give a ticket at once
    launch      [pause] verify tags --in_flight--> [pause] model, tags --after--> [pause] --complete--> ledger
    copy        --before--> [pause] --in_flight--> [pause] move KV and tags --after--> [pause]      --> ledger

Jobs run one after the other, in order of arrival. A job is a generator that yields at each pause: a fault effect that
delays it, or the work that keeps the device busy. A device only decides how time passes at a pause: `CpuDevice` waits
on its worker thread, `SimDevice` schedules the rest of the job for later.

Each ticket is finished exactly once. A delayed completion report (`device.complete`) delays no other job.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from faults import Effect, Kind, Point
from runtime.core.env import Env
from runtime.core.errors import DeviceLost, LaunchError, RuntimeFailure
from runtime.core.ports import Ticket
from runtime.core.work import Claims, Copy, StepResult, Work
from runtime.device.points import DEVICE_COMPLETE, DEVICE_LAUNCH, cross_copy, phase_of
from runtime.device.ports import Mover, StepModel, Tags

Pause = Effect | Work | Copy
JobSteps = Generator[Pause, None, StepResult | None]


@dataclass(slots=True, eq=False)
class Job:
    """A launch or a copy that is queued or running. `result` or `error` is set when its steps are done."""

    ticket: Ticket
    steps: JobSteps
    result: StepResult | None = None
    error: RuntimeFailure | None = None


class Launcher(ABC):
    """Implements `runtime.core.ports.Device`. `models` maps `Work.model_key` to a model; without `mover`, copies are
    refused."""

    def __init__(self, models: Mapping[str, StepModel], plane: Tags, env: Env, mover: Mover | None) -> None:
        self._models: Mapping[str, StepModel] = dict(models)
        self._plane = plane
        self._env = env
        self._mover = mover
        self._seq = 0
        self._held: set[Ticket] = set()
        self._closed = False
        self._lost: DeviceLost | None = None
        self._lock = threading.Lock()

    # -- implemented by each device -----------------------------------------------------------------------------------

    @abstractmethod
    def _start(self, job: Job) -> None:
        """Queue `job` and return at once. The caller holds the lock."""

    @abstractmethod
    def _waiting(self) -> Iterable[Job]:
        """Remove and return the jobs that have not begun; none begins afterwards. The caller holds the lock."""

    @abstractmethod
    def _when_over(self, effect: Effect, call: Callable[[], None]) -> None:
        """Call `call` once `effect` is over or released. Other jobs run meanwhile."""

    # -- called by the engine -----------------------------------------------------------------------------------------

    def launch(self, work: Work, reads: Claims, writes: Sequence[int]) -> Ticket:
        """See Device. Raises LaunchError or DeviceLost; nothing runs then."""
        self._refuse_lost()
        if work.model_key not in self._models:
            known = ", ".join(repr(key) for key in self._models)
            raise LaunchError(f"no model {work.model_key!r} on this device; it has {known}")
        return self._queue(work, self._launch(work, reads, self._cross(DEVICE_LAUNCH, work, "before")))

    def copy(self, copy: Copy) -> Ticket:
        """See Device. Raises LaunchError or DeviceLost; nothing is copied then."""
        self._refuse_lost()
        if self._mover is None:
            raise LaunchError("this device has no host memory to copy to")
        return self._queue(copy, self._copy(copy, self._mover))

    def holds(self, ticket: Ticket) -> bool:
        """See Device."""
        return ticket in self._held

    def close(self) -> None:
        """Refuse new jobs and fail queued ones with LaunchError. A hung job ends when its fault is released."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            left = list(self._waiting())
        for job in left:
            job.error = LaunchError("the device was closed before this launch began")
            self._let_go(job)

    def _queue(self, work: Work | Copy, steps: JobSteps) -> Ticket:
        with self._lock:
            if self._closed:
                raise LaunchError("the device is closed")
            ticket = self._ticket(work)
            self._held.add(ticket)
            self._start(Job(ticket, steps))
        return ticket

    def _ticket(self, work: Work | Copy) -> Ticket:
        self._seq += 1
        return Ticket(seq=self._seq, work=work, launched_ns=self._env.clock.now_ns())

    def _refuse_lost(self) -> None:
        if self._lost is not None:
            raise DeviceLost(str(self._lost))

    # -- the steps of a job -------------------------------------------------------------------------------------------

    def _launch(self, work: Work, reads: Claims, held: Effect | None) -> JobSteps:
        if held is not None:
            yield held
        breaches = self._plane.verify(work, reads)
        if (held := self._cross(DEVICE_LAUNCH, work, "in_flight")) is not None:
            yield held
        self._refuse_closed("launch")
        yield work
        sampled = self._models[work.model_key].run(work)
        self._plane.stamp(work)
        if (held := self._cross(DEVICE_LAUNCH, work, "after")) is not None:
            yield held
        return StepResult(sampled, breaches)

    def _copy(self, copy: Copy, mover: Mover) -> JobSteps:
        held = cross_copy(self._env, copy, "before")
        dropped = held is not None and held.kind is Kind.DROP
        if held is not None and not dropped:
            yield held
        if (held := cross_copy(self._env, copy, "in_flight")) is not None:
            yield held
        self._refuse_closed("copy")
        yield copy
        if not dropped:
            mover.move(copy)
        if (held := cross_copy(self._env, copy, "after")) is not None:
            yield held
        return None

    def _refuse_closed(self, what: str) -> None:
        if self._closed:
            raise LaunchError(f"the device was closed while this {what} was held up")

    def _advance(self, job: Job) -> Pause | None:
        """Run `job` up to its next pause and return the pause. Return None when the job is done; its result or error is
        set then."""
        try:
            return next(job.steps)
        except StopIteration as over:
            job.result = over.value
        except RuntimeFailure as failure:
            job.error = failure
        except Exception as failure:
            step = job.ticket.work.step if isinstance(job.ticket.work, Work) else None
            self._env.tell_exception(failure, step)
            job.error = LaunchError(f"{job.ticket.work}: {type(failure).__name__}: {failure}")
            job.error.__cause__ = failure
        return None

    def _report(self, job: Job) -> None:
        """Finish the ticket of a job that is done. A fault may delay this for a launch, while the device goes on."""
        if isinstance(job.error, DeviceLost):
            self._lost = job.error
        work = job.ticket.work
        held = None if isinstance(work, Copy) else self._cross(DEVICE_COMPLETE, work, "before")
        if held is None:
            self._let_go(job)
        else:
            self._when_over(held, lambda: self._let_go(job))

    def _let_go(self, job: Job) -> None:
        self._finish(job)
        self._held.discard(job.ticket)

    def _finish(self, job: Job) -> None:
        ticket = job.ticket
        assert not ticket.done, f"launch {ticket.seq} is finished twice"
        ticket.result, ticket.error = job.result, job.error
        ticket.done_ns = self._env.clock.now_ns()
        self._env.ledger.complete(ticket)

    def _lose(self, job: Job, error: BaseException) -> None:
        """Give the device up after an exception outside of a job's steps. The engine gets the job as lost."""
        ticket = job.ticket
        self._lost = DeviceLost(f"the device's worker failed: {self._env.tell_exception(error)}")
        if not ticket.done:
            ticket.error, ticket.done_ns = self._lost, self._env.clock.now_ns()
            self._env.ledger.complete(ticket)

    def _cross(self, point: Point, work: Work, place: str) -> Effect | None:
        faults = self._env.faults
        if not faults.armed:
            return None
        requests = ",".join(work.request_ids) or None
        return faults.fire(point, place=place, step=work.step, request=requests, phase=phase_of(work))
