"""The engine: one step at a time, top to bottom in `Engine.step`. It runs in whichever thread calls it.

It waits for completion, mail or the next guard deadline, never for work: a hung launch can't blind the watchdog.
A request advances only when the launch that computed it completes, so a failed step can be repeated.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from faults.points import Severity
from runtime.contract.violation import ContractViolation
from runtime.core.edge import Call, Cancel, End, Finish, Mailbox, Output, Sink, Submit, end_of
from runtime.core.env import Env
from runtime.core.errors import DeviceLost, Draining, LaunchError, RuntimeFailure
from runtime.core.ports import Device, Ticket
from runtime.core.work import Breach, Sampled
from runtime.guard.audit import AuditRow, audit
from runtime.guard.watchdog import Bounds, Watchdog
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.swap import SwapSpace
from runtime.scheduling.batch import Batch, bind, read_back
from runtime.scheduling.request import Phase, Request
from runtime.scheduling.scheduler import Limits, Scheduler
from runtime.status import Status


@dataclass(slots=True)
class Flight:
    """The launch in flight and what to do again if it fails."""

    batch: Batch
    ticket: Ticket
    repeats: int


class Engine:
    """Requests in through `mailbox`, outputs out through `sink`, everything else through `env`."""

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
    ) -> None:
        self.mailbox = mailbox
        self.status = Status()
        self.fatal: DeviceLost | None = None
        self.leap: Callable[[Batch, int], Ticket | None] = lambda batch, step: None
        """In virtual time: a batch is launched, and perhaps many steps behind it, without being laid out; or None."""
        self._env = env
        self._device = device
        self._pool = pool
        self._sink = sink
        self._scheduler = Scheduler(env, pool, limits, lambda request, why: self._end(request, end_of(why)), swap)
        self._preemption = self._scheduler.preemption
        self._watchdog = Watchdog(env, bounds)
        self._requests: dict[str, Request] = {}
        self._due: deque[Batch] = deque()
        self._flight: Flight | None = None
        self._outputs: list[Output] = []
        self._steps = 0
        self._prompt_tokens = 0
        self._generation_tokens = 0
        self._progress_ns = env.clock.now_ns()
        self._draining = False

    def step(self) -> None:
        """One turn: mail, completions, deadlines, then the next launch if the device is free."""
        self._read_mail()
        for ticket in self._env.ledger.settle():
            self._land(ticket)
        self._guard()
        self._launch_next()
        self._publish()

    def wait_s(self) -> float | None:
        """How long there is nothing to do unless mail or a completion comes; None means for ever."""
        due = None if self.fatal else self._watchdog.next_ns(self._in_flight())
        return None if due is None else max(0.0, (due - self._env.clock.now_ns()) / 1e9)

    def audit(self, scope: str) -> list[AuditRow]:
        """The reclamation audit, on the engine's thread; from another thread post a Call. Reads all KV in use."""
        self._refuse_corrupt(read_back(self._pool.plane, [one for one in self._scheduler.running if not one.copying]))
        return audit(self._env, self._pool, self._requests.keys(), len(self._in_flight()), scope)

    def drain(self) -> None:
        """Refuse new requests from now on; those inside end by themselves."""
        self._draining = True

    # -- mail ---------------------------------------------------------------------------------------------------------

    def _read_mail(self) -> None:
        for mail in self.mailbox.take():
            match mail:
                case Submit():
                    self._admit(mail)
                case Cancel(request_id, why):
                    self._cancel(request_id, why)
                case Finish(request_id):
                    if request_id in self._requests:
                        self._end_well(self._requests[request_id], "stop")
                case Call(do):
                    do()

    def _admit(self, submit: Submit) -> None:
        try:
            if self.fatal is not None:
                raise self.fatal
            if self._draining:
                raise Draining("the server is draining and takes no new requests")
            request = self._scheduler.admit(submit)
        except RuntimeFailure as failure:
            self._env.marks.hit("admit.refused")
            rejected = Request(submit, -1, self._pool.block_tokens)
            self._outputs.append(
                Output(submit.request_id, (), rejected.ended(end_of(failure), self._env.clock.now_ns()))
            )
            return
        self._requests[request.id] = request
        self._watchdog.watch(request)

    def _cancel(self, request_id: str, why: str) -> None:
        request = self._requests.get(request_id)
        if request is not None:
            self._env.marks.hit("cancel.delivered")
            self._env.ledger.note(request_id, self._env.clock.now_ns(), f"cancelled in {request.phase}: {why}")
            self._end(request, End("cancelled", 499, code="cancelled", message=why))

    # -- completions --------------------------------------------------------------------------------------------------

    def _in_flight(self) -> tuple[Ticket, ...]:
        copies = tuple(self._preemption.copies)
        return copies if self._flight is None else (self._flight.ticket, *copies)

    def _land(self, ticket: Ticket) -> None:
        """A launch or a copy is done. A launch: advance its requests, or repeat it once, or fail it."""
        now_ns = self._progress_ns = self._env.clock.now_ns()
        self._watchdog.lost(ticket, now_ns)
        self._watchdog.over(ticket)
        if ticket in self._preemption.copies:
            self._preemption.landed(ticket)
            if isinstance(ticket.error, DeviceLost):
                self._die(ticket.error)
            return
        flight = self._flight
        assert flight is not None and flight.ticket is ticket, "a launch completed that is not in flight"
        self._flight = None
        if ticket.error is not None:
            self._failed(flight.batch, flight.repeats, ticket.error)
            return
        assert ticket.result is not None, "a launch completed with neither a result nor an error"
        self._refuse_corrupt(ticket.result.breaches)
        self._scheduler.learn(flight.batch, (ticket.done_ns or now_ns) - ticket.launched_ns)
        for row, sampled in zip(flight.batch.rows, ticket.result.sampled, strict=True):
            if row.request.phase is not Phase.ENDED:
                self._advance(row.request, row.tokens, sampled, now_ns)

    def _advance(self, request: Request, computed: int, sampled: Sampled | None, now_ns: int) -> None:
        if request.generated == 0 and sampled is not None:
            self._prompt_tokens += len(request.submit.prompt)
        request.advance(computed, sampled, now_ns)
        self._scheduler.publish(request)
        if sampled is None:
            return
        self._generation_tokens += 1
        self._take(request, sampled)

    def _take(self, request: Request, sampled: Sampled) -> None:
        """Its newest token: told, or the last of all."""
        finish = request.finish_by()
        if finish is None:
            self._outputs.append(Output(request.id, (sampled,)))
        else:
            self._end_well(request, finish, (sampled,))

    def _end_well(self, request: Request, finish: str, tokens: tuple[Sampled, ...] = ()) -> None:
        """Each slot of its KV is read once more before; what lies on the host has no slots."""
        if request.phase is Phase.RUNNING and request.copying is None:
            self._refuse_corrupt(read_back(self._pool.plane, (request,)))
        if request.phase is not Phase.ENDED:
            self._end(request, End("ok", 200, finish=finish), tokens)

    def _refuse_corrupt(self, breaches: Sequence[Breach]) -> None:
        """A request whose KV is not what it wrote must not end in 200: it is failed before its token is taken."""
        for breach in breaches:
            self._pool.unpublish(breach.block)
            request = self._requests.get(breach.request_id)
            if request is None:
                continue
            self._env.marks.hit("kv.tag_breach")
            history = self._env.ledger.history(request.id)
            text = f"{request.id}: block {breach.block} (index {breach.index}), {breach.what}; {history}"
            self._env.tell("invariant", "kv.tags", text)
            self._end(request, End("http_error", 500, "kv_corruption", "a KV block did not hold what was written"))

    # -- guard --------------------------------------------------------------------------------------------------------

    def _guard(self) -> None:
        now_ns = self._env.clock.now_ns()
        for request in self._watchdog.expired(now_ns):
            self._env.marks.hit("guard.cancelled")
            self._env.ledger.note(request.id, now_ns, f"deadline passed in {request.phase}")
            self._end(request, End("timeout", 504, "deadline_exceeded", "the request's deadline has passed"))
        for ticket in self._in_flight():
            if self._watchdog.lost(ticket, now_ns) and self.fatal is None:
                self._die(DeviceLost(f"{ticket.work} hangs past the fatal bound"))

    def _die(self, failure: DeviceLost) -> None:
        """Nothing can be trusted any more: one explicit error for every open request, then no launch ever again."""
        self.fatal = failure
        self._env.marks.hit("guard.fatal")
        self._env.tell("fatal", failure.code, str(failure))
        for request in list(self._requests.values()):
            self._end(request, end_of(failure))

    # -- launching ----------------------------------------------------------------------------------------------------

    def _launch_next(self) -> None:
        """The next batch of the plan in hand, or of a new one."""
        while self._flight is None and self.fatal is None:
            self._due.extend(() if self._due else self._scheduler.plan())
            if not self._due:
                return
            batch = self._due.popleft()
            rows = tuple(row for row in batch.rows if row.request.phase is Phase.RUNNING)
            if rows:
                self._launch(Batch(batch.model_key, rows), repeats=0)

    def _launch(self, batch: Batch, repeats: int) -> None:
        self._steps += 1
        if not repeats and (ticket := self.leap(batch, self._steps)) is not None:
            self._flight = Flight(batch, ticket, repeats)
            return
        try:
            bound = bind(batch, self._steps, self._pool.block_tokens, deep=self._env.faults.armed)
            self._pool.check_writes(bound.writes)
            ticket = self._device.launch(bound.work, bound.reads, bound.writes)
        except (LaunchError, DeviceLost) as failure:
            self._failed(batch, repeats, failure)
            return
        self._flight = Flight(batch, ticket, repeats)

    def _refuse_rows(self, batch: Batch, repeats: int, violation: ContractViolation) -> None:
        """Fail the rows that the violation names, or all when it names none, and launch what is left."""
        at = violation.rows
        named = batch.rows if at is None else tuple(batch.rows[row] for row in at)
        for row in named:
            if row.request.phase is Phase.ENDED:
                continue
            self._env.ledger.note(row.request.id, self._env.clock.now_ns(), f"its inputs are refused: {violation}")
            self._end(row.request, end_of(violation))
        if left := tuple(row for row in batch.rows if row.request.phase is not Phase.ENDED):
            self._launch(Batch(batch.model_key, left), repeats)

    def _failed(self, batch: Batch, repeats: int, error: BaseException) -> None:
        """Repeat a failed step once, without those that ended meanwhile; then fail this batch and only this one.

        A step that broke its contract was prepared twice already.
        """
        if isinstance(error, ContractViolation):
            self._refuse_rows(batch, repeats, error)
            return
        if isinstance(error, RuntimeFailure) and error.severity is Severity.FATAL:
            self._die(DeviceLost(str(error)))
            return
        rows = tuple(row for row in batch.rows if row.request.phase is not Phase.ENDED)
        if repeats == 0:
            self._env.marks.hit("engine.step_repeated")
            if rows:
                self._launch(Batch(batch.model_key, rows), repeats=1)
            return
        self._env.marks.hit("engine.step_failed")
        failure = error if isinstance(error, RuntimeFailure) else LaunchError(f"{type(error).__name__}: {error}")
        for row in rows:
            self._env.ledger.note(row.request.id, self._env.clock.now_ns(), f"its launch failed twice: {failure}")
            self._end(row.request, end_of(failure))

    # -- endings and news ---------------------------------------------------------------------------------------------

    def _end(self, request: Request, end: End, tokens: tuple[Sampled, ...] = ()) -> None:
        """The one way out. Blocks that the launch in flight touches wait for it in limbo."""
        now_ns = self._env.clock.now_ns()
        flight = self._flight.ticket if self._flight else None
        self._env.ledger.note(request.id, now_ns, f"ended {end.outcome}")
        self._scheduler.remove(request, after=flight)
        self._outputs.append(Output(request.id, tokens, request.ended(end, now_ns)))
        del self._requests[request.id]
        self._env.ledger.forget(request.id)
        self._progress_ns = now_ns

    def _publish(self) -> None:
        kv = self._pool.count()
        if not kv.conserved:
            self._env.tell("invariant", "kv.conservation", f"{kv}")
        self.status = Status(
            running=len(self._scheduler.running),
            waiting=len(self._scheduler.waiting),
            swapped=self._preemption.swapped,
            kv=kv,
            steps=self._steps,
            prompt_tokens=self._prompt_tokens,
            generation_tokens=self._generation_tokens,
            preemptions=self._env.marks.total["kv.preempt"],
            prefix_queries=self._scheduler.prefix_queries,
            prefix_hits=self._scheduler.prefix_hits,
            progress_ns=self._progress_ns,
            flight_ns=self._flight.ticket.launched_ns if self._flight else None,
            draining=self._draining,
        )
        outputs, self._outputs = self._outputs, []
        self._sink.step(outputs)
