"""The engine runs one step at a time, in the order of `Engine.step`, in the thread that calls it.

It waits for a completion, mail or the next deadline of the watchdog, and never for the device: a hung launch does not
blind the watchdog. A request advances only when its launch completes, so a failed step can be repeated.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from faults.points import Severity
from runtime.contract.violation import ContractViolation
from runtime.core.env import Env
from runtime.core.errors import DeadlineExceeded, DeviceLost, Draining, LaunchError, RuntimeFailure
from runtime.core.messages import Call, Cancel, End, Finish, Mailbox, Sink, Submit, end_of
from runtime.core.ports import Device, Ticket
from runtime.engine.eager import Eager
from runtime.engine.executor import Chain, EngineParts, Progress, eager_only
from runtime.engine.landing import Landing
from runtime.engine.open_requests import OpenRequests
from runtime.guard.audit import AuditRow, audit
from runtime.guard.standstill import Scene
from runtime.guard.watchdog import Bounds, Watchdog
from runtime.memory.kv.figures import Holding
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.swap import SwapSpace
from runtime.scheduling.batch import Batch
from runtime.scheduling.request import Request, RequestState
from runtime.scheduling.scheduler import Limits, Scheduler
from runtime.stats import EngineStats


@dataclass(slots=True)
class Flight:
    """The launch in flight, its batch, and how often it was repeated."""

    batch: Batch
    ticket: Ticket
    repeats: int


class Engine:
    """Requests come through `mailbox`; outputs go to `sink`."""

    def __init__(
        self,
        env: Env,
        device: Device,
        pool: PagedPool,
        sink: Sink,
        mailbox: Mailbox,
        limits: Limits,
        bounds: Bounds,
        swap: SwapSpace | None = None,
        chain: Chain = eager_only,
    ) -> None:
        self.mailbox = mailbox
        self.status = EngineStats()
        self.fatal: DeviceLost | None = None
        self._env = env
        self._device = device
        self._seqs_max = limits.seqs_max
        self._pool = pool
        self._sink = sink
        self._progress = Progress(env.clock.now_ns())
        self._watchdog = Watchdog(env, bounds)
        self._open = OpenRequests(env, pool, limits, swap, self._watchdog, self._progress)
        self._landing = Landing(env, pool, self._open, self._progress)
        self._preemption = self.scheduler.preemption
        parts = EngineParts(self.scheduler, self._watchdog, self._progress, Eager(env, device, pool))
        self._executors = tuple(chain(parts))
        self._due: deque[Batch] = deque()
        self._flight: Flight | None = None
        self._draining = False
        self._kv_sum = pool.blocks

    def step(self) -> None:
        """One turn: mail, completions, deadlines, then the next launch if the device is free."""
        self._read_mail()
        for ticket in self._env.ledger.settle():
            self._land(ticket)
        self._guard()
        self._launch_next()
        self._publish()

    def wait_s(self) -> float | None:
        """Return the seconds until the next deadline of the watchdog; None when there is none."""
        due = None if self.fatal else self._watchdog.next_ns(self._in_flight())
        return None if due is None else max(0.0, (due - self._env.clock.now_ns()) / 1e9)

    def audit(self, scope: str) -> list[AuditRow]:
        """Run the reclamation audit, which reads all KV in use. Other threads than the engine's post a Call."""
        self._landing.read_back([one for one in self.scheduler.running if not one.copying])
        return audit(self._env, self._pool, self.requests.keys(), len(self._in_flight()), scope)

    def generated(self, request_id: str) -> int | None:
        """Return the number of tokens generated for an open request, None when there is none. Any thread may ask."""
        request = self.requests.get(request_id)
        return None if request is None else request.generated

    def holdings(self) -> list[Holding]:
        """Return the KV blocks that each open request holds. Call it on the engine's thread."""
        return self.scheduler.holdings()

    def leaked(self, pool: str) -> int:
        """Return the blocks or spans of `pool` that ended requests still hold. Call it on the engine's thread."""
        return self._env.ledger.leaked(pool, self.requests.keys())

    def scene(self) -> Scene:
        """Return the state from which guard/standstill.py reads who waits for what. Any thread may call it."""
        flight, mail, landed_ns = self._flight, self.mailbox.unread(), self._progress.landed_ns
        ticket, flown = (None, []) if flight is None else (flight.ticket, [row.request for row in flight.batch.rows])
        return Scene(
            self._env, self._pool, self.scheduler, self._seqs_max, mail, ticket, flown, self._device.holds, landed_ns
        )

    def drain(self) -> None:
        """Refuse new requests from now on. Open requests run to their end."""
        self._draining = True

    @property
    def steps(self) -> int:
        """Number of the latest launch."""
        return self._progress.steps

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler, with the requests that wait and run."""
        return self._open.scheduler

    @property
    def requests(self) -> Mapping[str, Request]:
        """Open requests by id."""
        return self._open.by_id

    # -- mail ---------------------------------------------------------------------------------------------------------

    def _read_mail(self) -> None:
        for mail in self.mailbox.take():
            match mail:
                case Submit():
                    self._open.admit(mail, self.fatal or self._refusal())
                case Cancel(request_id, why):
                    self._cancel(request_id, why)
                case Finish(request_id):
                    if request_id in self.requests:
                        self._landing.end_well(self.requests[request_id], "stop")
                case Call(do):
                    do()

    def _refusal(self) -> RuntimeFailure | None:
        return Draining("the server is draining and takes no new requests") if self._draining else None

    def _cancel(self, request_id: str, why: str) -> None:
        request = self.requests.get(request_id)
        if request is not None:
            self._env.counters.hit("cancel.delivered")
            self._env.counters.hit(f"cancel.{request.stage}")
            self._env.ledger.note(request_id, self._env.clock.now_ns(), f"cancelled in {request.stage}: {why}")
            self._open.end(request, End("cancelled", 499, code="cancelled", message=why))

    # -- completions --------------------------------------------------------------------------------------------------

    def _in_flight(self) -> tuple[Ticket, ...]:
        copies = tuple(self._preemption.copies)
        return copies if self._flight is None else (self._flight.ticket, *copies)

    def _land(self, ticket: Ticket) -> None:
        """Land a launch or a copy that is done. A launch advances its requests, or is repeated once, or fails."""
        now_ns = self._progress.t_ns = self._progress.landed_ns = self._env.clock.now_ns()
        self._watchdog.lost(ticket, now_ns)
        self._watchdog.over(ticket)
        if ticket in self._preemption.copies:
            self._preemption.landed(ticket)
            if isinstance(ticket.error, DeviceLost):
                self._die(ticket.error)
            return
        flight = self._flight
        assert flight is not None and flight.ticket is ticket, "a launch completed that is not in flight"
        self._fly(None)
        for executor in self._executors:
            executor.completed(flight.batch, ticket)
        if ticket.error is not None:
            self._failed(flight.batch, flight.repeats, ticket.error)
            return
        assert ticket.result is not None, "a launch completed with neither a result nor an error"
        self._landing.land(flight.batch, ticket.result, (ticket.done_ns or now_ns) - ticket.launched_ns)

    def _failed(self, batch: Batch, repeats: int, error: BaseException) -> None:
        """Repeat a failed step once, without the requests that ended meanwhile; then fail the requests of this batch.

        A step that broke its contract has been prepared twice already.
        """
        if isinstance(error, ContractViolation):
            self._refuse_rows(batch, repeats, error)
            return
        if isinstance(error, RuntimeFailure) and error.severity is Severity.FATAL:
            self._die(DeviceLost(str(error)))
            return
        rows = tuple(row for row in batch.rows if row.request.state is not RequestState.ENDED)
        if repeats == 0:
            self._env.counters.hit("engine.step_repeated")
            if rows:
                self._launch(Batch(batch.model_key, rows), repeats=1)
            return
        self._env.counters.hit("engine.step_failed")
        failure = error if isinstance(error, RuntimeFailure) else LaunchError(f"{type(error).__name__}: {error}")
        for row in rows:
            self._env.ledger.note(row.request.id, self._env.clock.now_ns(), f"its launch failed twice: {failure}")
            self._open.end(row.request, end_of(failure))

    # -- guard --------------------------------------------------------------------------------------------------------

    def _guard(self) -> None:
        now_ns = self._env.clock.now_ns()
        for request in self._watchdog.expired(now_ns):
            self._env.counters.hit("guard.cancelled")
            self._env.counters.hit(f"deadline.{request.stage}")
            self._env.ledger.note(request.id, now_ns, f"deadline passed in {request.stage}")
            self._open.end(request, end_of(DeadlineExceeded("the request's deadline has passed")))
        for ticket in self._in_flight():
            if self._watchdog.lost(ticket, now_ns) and self.fatal is None:
                self._die(DeviceLost(f"{ticket.work} hangs past the fatal bound"))

    def _die(self, failure: DeviceLost) -> None:
        """Give up the device: end every open request with an error, and launch nothing more."""
        self.fatal = failure
        self._env.counters.hit("guard.fatal")
        self._env.tell("fatal", failure.code, str(failure))
        for request in list(self.requests.values()):
            self._open.end(request, end_of(failure))

    # -- launching ----------------------------------------------------------------------------------------------------

    def _launch_next(self) -> None:
        """Launch the next batch of the current plan, or of a new one."""
        while self._flight is None and self.fatal is None:
            self._due.extend(() if self._due else self.scheduler.plan())
            if not self._due:
                return
            batch = self._due.popleft()
            rows = tuple([row for row in batch.rows if row.request.state is RequestState.RUNNING])
            if rows:
                self._launch(Batch(batch.model_key, rows), repeats=0)

    def _launch(self, batch: Batch, repeats: int) -> None:
        self._progress.steps += 1
        try:
            self._fly(Flight(batch, self._run(batch), repeats))
        except (LaunchError, DeviceLost) as failure:
            self._failed(batch, repeats, failure)

    def _run(self, batch: Batch) -> Ticket:
        """Run `batch` by the first executor that takes it."""
        for executor in self._executors:
            if (ticket := executor.run(batch, self._progress.steps)) is not None:
                return ticket
        raise AssertionError("no executor takes the batch: the last of a chain takes every one")

    def _fly(self, flight: Flight | None) -> None:
        self._flight = flight
        self._open.in_flight = None if flight is None else flight.ticket

    def _refuse_rows(self, batch: Batch, repeats: int, violation: ContractViolation) -> None:
        """Fail the rows that the violation names, or all when it names none, and launch what is left."""
        at = violation.rows
        named = batch.rows if at is None else tuple(batch.rows[row] for row in at)
        for row in named:
            if row.request.state is RequestState.ENDED:
                continue
            self._env.ledger.note(row.request.id, self._env.clock.now_ns(), f"its inputs are refused: {violation}")
            self._open.end(row.request, end_of(violation))
        if left := tuple(row for row in batch.rows if row.request.state is not RequestState.ENDED):
            self._launch(Batch(batch.model_key, left), repeats)

    # -- outputs ------------------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        """Replace the status and hand this step's outputs to the sink."""
        kv, scheduler, progress = self._pool.count(), self.scheduler, self._progress
        changed, self._kv_sum = kv.sum != self._kv_sum, kv.sum
        if changed and not kv.conserved:  # told once: who is lost costs a look at every block
            lost = [f"{owner} held blocks {blocks} last" for owner, blocks in self._pool.lost().items()]
            self._env.tell("invariant", "kv.conservation", "; ".join([f"{kv}", *lost]))
        self.status = EngineStats(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            swapped=self._preemption.swapped,
            kv=kv,
            steps=progress.steps,
            prompt_tokens=progress.prompt_tokens,
            generation_tokens=progress.generation_tokens,
            preemptions=self._env.counters.total["kv.preempt"],
            progress_ns=progress.t_ns,
            flight_ns=self._flight.ticket.launched_ns if self._flight else None,
        )
        self._sink.step(self._open.take_outputs())
