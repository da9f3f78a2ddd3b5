"""The CPU device: one worker thread that runs launches in order.

    engine thread   launch(work), copy(copy) --> queue --> returns a ticket at once
    any thread      call(do) ------------------> queue --> returns when the worker has done it
    worker thread   verify tags -> model -> stamp tags -> ticket done -> ledger.complete(ticket)
                    move KV and its tags               ->

The engine never waits on this thread, so a launch that hangs can't blind its watchdog. Each ticket is finished exactly
once, by whoever took it from the queue: the worker, or `close`.
"""

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import torch

from faults import Effect, Kind, Point
from faults.actions import carry_out
from runtime.core.env import Env
from runtime.core.errors import DeviceLost, LaunchError, RuntimeFailure
from runtime.core.ports import Ticket
from runtime.core.work import Claim, Copy, StepResult, Work
from runtime.device.points import DEVICE_COMPLETE, DEVICE_LAUNCH, cross_copy, phase_of
from runtime.device.ports import Mover, StepModel, Tags

_FAREWELL_S = 0.5


@dataclass(frozen=True, slots=True)
class _Launch:
    ticket: Ticket
    work: Work | Copy
    reads: Sequence[Claim] = ()
    effect: Effect | None = None
    """Of a fault placed before the launch: waited for by the worker, since `launch` must not wait."""


@dataclass(frozen=True, slots=True)
class _Call:
    do: Callable[[], None]
    done: "Future[None]"

    def run(self) -> None:
        try:
            self.do()
        except BaseException as error:
            self.done.set_exception(error)
        else:
            self.done.set_result(None)


class CpuDevice:
    """Implements `runtime.core.ports.Device` with the models in `models`, by `Work.model_key`.

    `threads` is torch's intra-op number on the worker thread; None leaves it as it is. Without `mover` it refuses
    copies.
    """

    def __init__(
        self,
        models: Mapping[str, StepModel],
        plane: Tags,
        env: Env,
        *,
        threads: int | None = None,
        mover: Mover | None = None,
    ) -> None:
        self._models: Mapping[str, StepModel] = dict(models)
        self._plane = plane
        self._env = env
        self._threads = threads
        self._mover = mover
        self._seq = 0
        self._queue: queue.SimpleQueue[_Launch | _Call | None] = queue.SimpleQueue()
        self._closed = False
        self._lost: DeviceLost | None = None
        self._door = threading.Lock()
        self._worker = threading.Thread(target=self._serve, name="cpu-device", daemon=True)
        self._worker.start()

    def launch(self, work: Work, reads: Sequence[Claim], writes: Sequence[int]) -> Ticket:
        """Queue one step and return at once. Raises LaunchError or DeviceLost when nothing will run."""
        if self._lost is not None:
            raise DeviceLost(str(self._lost))
        if work.model_key not in self._models:
            known = ", ".join(repr(key) for key in self._models)
            raise LaunchError(f"no model {work.model_key!r} on this device; it has {known}")
        return self._put(work, reads, self._cross(DEVICE_LAUNCH, work, "before"))

    def copy(self, copy: Copy) -> Ticket:
        """Queue a copy and return at once. Raises LaunchError or DeviceLost when nothing will be copied."""
        if self._lost is not None:
            raise DeviceLost(str(self._lost))
        if self._mover is None:
            raise LaunchError("this device has no host memory to copy to")
        return self._put(copy)

    def call(self, do: Callable[[], None]) -> None:
        """Run `do` on the worker thread, in order with the launches, and return when it is done. Raises what it raises,
        or LaunchError when the device is closed. Never for the engine's thread, which waits for no work."""
        call = _Call(do, Future())
        with self._door:
            if self._closed:
                raise LaunchError("the device is closed")
            self._queue.put(call)
        call.done.result()

    def _put(self, work: Work | Copy, reads: Sequence[Claim] = (), effect: Effect | None = None) -> Ticket:
        with self._door:
            if self._closed:
                raise LaunchError("the device is closed")
            self._seq += 1
            ticket = Ticket(seq=self._seq, work=work, launched_ns=self._env.clock.now_ns())
            self._queue.put(_Launch(ticket, work, reads, effect))
        return ticket

    def close(self) -> None:
        """Refuse launches from now on and fail those still queued. One that hangs is left to its daemon thread."""
        with self._door:
            if self._closed:
                return
            self._closed = True
            left: list[_Launch | _Call] = []
            while not self._queue.empty():
                if (asked := self._queue.get()) is not None:
                    left.append(asked)
            self._queue.put(None)
        for waiting in left:
            closed = LaunchError("the device was closed before this launch began")
            if isinstance(waiting, _Call):
                waiting.done.set_exception(closed)
            else:
                self._finish(waiting.ticket, None, closed)
        self._worker.join(_FAREWELL_S)

    def _serve(self) -> None:
        if self._threads is not None:
            torch.set_num_threads(self._threads)
        while (asked := self._queue.get()) is not None:
            if isinstance(asked, _Call):
                asked.run()
            else:
                self._run(asked)
            del asked  # while idle, keep no request's work alive

    def _run(self, launch: _Launch) -> None:
        ticket, work = launch.ticket, launch.work
        result: StepResult | None = None
        error: RuntimeFailure | None = None
        try:
            if isinstance(work, Copy):
                self._move(work)
            else:
                result = self._step(work, launch)
        except RuntimeFailure as failure:
            error = failure
        except Exception as failure:
            error = LaunchError(f"{work}: {type(failure).__name__}: {failure}")
            error.__cause__ = failure
        if isinstance(error, DeviceLost):
            self._lost = error
        held = None if isinstance(work, Copy) else self._cross(DEVICE_COMPLETE, work, "before")
        if held is None:
            self._finish(ticket, result, error)
        else:
            # The work is done and only the news of it is lost: the worker goes on, another thread keeps the news.
            arguments = (held, ticket, result, error)
            threading.Thread(target=self._finish_later, args=arguments, name="cpu-device-news", daemon=True).start()

    def _move(self, copy: Copy) -> None:
        assert self._mover is not None, "a copy was taken without a mover"
        effect = carry_out(cross_copy(self._env, copy, "before"))
        carry_out(cross_copy(self._env, copy, "in_flight"))
        if self._closed:
            raise LaunchError("the device was closed while this copy was held up")
        if effect is None:
            self._mover.move(copy)
        else:
            assert effect.kind is Kind.DROP, f"a copy does not know {effect.kind}"
        carry_out(cross_copy(self._env, copy, "after"))

    def _step(self, work: Work, launch: _Launch) -> StepResult:
        carry_out(launch.effect)
        breaches = self._plane.verify(work, launch.reads)
        carry_out(self._cross(DEVICE_LAUNCH, work, "in_flight"))
        if self._closed:
            raise LaunchError("the device was closed while this launch was held up")
        sampled = self._models[work.model_key].run(work)
        self._plane.stamp(work)
        carry_out(self._cross(DEVICE_LAUNCH, work, "after"))
        return StepResult(sampled, breaches)

    def _cross(self, point: Point, work: Work, place: str) -> Effect | None:
        faults = self._env.faults
        if not faults.armed:
            return None
        return faults.fire(
            point, place=place, step=work.step, request=work.request_ids[0] if work.rows else None, phase=phase_of(work)
        )

    def _finish_later(self, held: Effect, ticket: Ticket, result: StepResult | None, error: Exception | None) -> None:
        held.wait()
        self._finish(ticket, result, error)

    def _finish(self, ticket: Ticket, result: StepResult | None, error: Exception | None) -> None:
        assert not ticket.done, f"launch {ticket.seq} is finished twice"
        ticket.result, ticket.error = result, error
        ticket.done_ns = self._env.clock.now_ns()
        self._env.ledger.complete(ticket)
