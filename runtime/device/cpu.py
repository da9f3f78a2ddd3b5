"""The CPU device: one worker thread that runs jobs in order and waits at each pause of a job (launcher.py).

    engine thread   launch(work), copy(copy) --> queue --> returns a ticket at once
    other threads   call(do) ------------------> queue --> returns when the worker has run `do`

The engine never waits for the worker, so a hung launch does not block the engine's watchdog.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

import torch

from faults import Effect
from faults.actions import carry_out
from runtime.core.env import Env
from runtime.core.errors import LaunchError
from runtime.device.launcher import Job, Launcher
from runtime.device.ports import Mover, StepModel, Tags

_JOIN_TIMEOUT_S = 0.5


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


class CpuDevice(Launcher):
    """Runs jobs on one worker thread. `threads` is torch's number of intra-op threads there; None keeps torch's own."""

    def __init__(
        self,
        models: Mapping[str, StepModel],
        plane: Tags,
        env: Env,
        *,
        threads: int | None = None,
        mover: Mover | None = None,
    ) -> None:
        super().__init__(models, plane, env, mover)
        self._threads = threads
        self._jobs: queue.SimpleQueue[Job | _Call | None] = queue.SimpleQueue()
        self._worker = threading.Thread(target=self._serve, name="cpu-device", daemon=True)
        self._worker.start()

    def call(self, do: Callable[[], None]) -> None:
        """Run `do` on the worker thread, in order with the jobs, and return when it is done.

        The engine's thread must not call this, since it never waits for work. Raises LaunchError when the device is
        closed, and every error of `do`.
        """
        call = _Call(do, Future())
        with self._lock:
            if self._closed:
                raise LaunchError("the device is closed")
            self._jobs.put(call)
        call.done.result()

    def close(self) -> None:
        """See Launcher. A job that hangs stays on its daemon thread."""
        super().close()
        self._worker.join(_JOIN_TIMEOUT_S)

    def _start(self, job: Job) -> None:
        self._jobs.put(job)

    def _waiting(self) -> Iterator[Job]:
        while not self._jobs.empty():
            match self._jobs.get():
                case Job() as job:
                    yield job
                case _Call() as call:
                    call.done.set_exception(LaunchError("the device was closed before this call began"))
        self._jobs.put(None)

    def _when_over(self, effect: Effect, call: Callable[[], None]) -> None:
        def later() -> None:
            effect.wait()
            call()

        threading.Thread(target=later, name="cpu-device-delayed", daemon=True).start()

    def _serve(self) -> None:
        if self._threads is not None:
            torch.set_num_threads(self._threads)
        while (item := self._jobs.get()) is not None:
            if isinstance(item, _Call):
                item.run()
            else:
                self._run(item)
            del item  # an idle worker keeps no request's work alive

    def _run(self, job: Job) -> None:
        try:
            while (pause := self._advance(job)) is not None:
                if isinstance(pause, Effect):
                    carry_out(pause)
            self._report(job)
        except Exception as error:  # the steps of a job contain their own errors: this one is of the device itself
            self._lose(job, error)
