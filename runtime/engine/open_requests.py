"""The requests between admission and their end, and the outputs that the sink gets after this step."""

from runtime.core.env import Env
from runtime.core.errors import RuntimeFailure
from runtime.core.messages import End, Output, Submit, end_of
from runtime.core.ports import Ticket
from runtime.core.work import Sampled
from runtime.engine.executor import Progress
from runtime.guard.watchdog import Watchdog
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.swap import SwapSpace
from runtime.scheduling.request import Request
from runtime.scheduling.scheduler import Limits, Scheduler


class OpenRequests:
    """The requests of one engine, by id. `in_flight` is the launch that may still touch their blocks."""

    def __init__(
        self, env: Env, pool: PagedPool, limits: Limits, swap: SwapSpace | None, watchdog: Watchdog, progress: Progress
    ) -> None:
        self.by_id: dict[str, Request] = {}
        self.scheduler = Scheduler(env, pool, limits, lambda request, why: self.end(request, end_of(why)), swap)
        self.in_flight: Ticket | None = None
        self._env = env
        self._pool = pool
        self._watchdog = watchdog
        self._progress = progress
        self._outputs: list[Output] = []

    def admit(self, submit: Submit, refusal: RuntimeFailure | None) -> None:
        """Admit the request, or end it at once: with `refusal`, or with the reason of the scheduler."""
        try:
            if refusal is not None:
                raise refusal
            request = self.scheduler.admit(submit)
        except RuntimeFailure as failure:
            self._env.counters.hit("admit.refused")
            rejected = Request(submit, -1, self._pool.sequences)
            ended = rejected.ended(end_of(failure), self._env.clock.now_ns())
            self._outputs.append(Output(submit.request_id, (), ended))
            return
        self.by_id[request.id] = request
        self._watchdog.watch(request)

    def tell(self, request: Request, sampled: Sampled) -> None:
        """Add a token to the outputs; the request goes on."""
        self._outputs.append(Output(request.id, (sampled,)))

    def end(self, request: Request, end: End, tokens: tuple[Sampled, ...] = ()) -> None:
        """End a request. Every request ends here. Blocks that the launch in flight touches wait for it in limbo."""
        now_ns = self._env.clock.now_ns()
        self._env.ledger.note(request.id, now_ns, f"ended {end.outcome}")
        self.scheduler.remove(request, after=self.in_flight)
        self._outputs.append(Output(request.id, tokens, request.ended(end, now_ns)))
        del self.by_id[request.id]
        self._env.ledger.forget(request.id)
        self._progress.t_ns = now_ns

    def take_outputs(self) -> list[Output]:
        """Return the outputs since the last call, in order."""
        outputs, self._outputs = self._outputs, []
        return outputs
