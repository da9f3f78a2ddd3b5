"""Landing: a completed launch advances its requests, and each row gets its token or its end.

A request whose KV does not hold what it wrote must not end in 200, so it fails before its token is taken.
"""

from collections.abc import Sequence

from runtime.core.env import Env
from runtime.core.errors import KvCorruption
from runtime.core.messages import End, end_of
from runtime.core.work import Breach, Sampled, StepResult
from runtime.engine.executor import Progress
from runtime.engine.open_requests import OpenRequests
from runtime.memory.kv.paged import PagedPool
from runtime.scheduling.batch import Batch, read_back
from runtime.scheduling.request import Request, RequestState


class Landing:
    """Lands the launches of one engine."""

    def __init__(self, env: Env, pool: PagedPool, requests: OpenRequests, progress: Progress) -> None:
        self._env = env
        self._pool = pool
        self._requests = requests
        self._progress = progress

    def land(self, batch: Batch, result: StepResult, took_ns: int) -> None:
        """Advance the requests of `batch`, which gave `result` after `took_ns`."""
        self.refuse_corrupt(result.breaches)
        self._requests.scheduler.record_duration(batch, took_ns)
        now_ns = self._env.clock.now_ns()
        for (request, tokens), sampled in zip(batch.rows, result.sampled, strict=True):
            if request.state is not RequestState.ENDED:
                self._advance(request, tokens, sampled, now_ns)

    def end_well(self, request: Request, finish: str, tokens: tuple[Sampled, ...] = ()) -> None:
        """End a request with 200 after every slot of its KV has been read again. Swapped KV has no slots."""
        if request.state is RequestState.RUNNING and request.copying is None:
            self.read_back((request,))
        if request.state is not RequestState.ENDED:
            self._requests.end(request, End("ok", 200, finish=finish), tokens)

    def read_back(self, requests: Sequence[Request]) -> None:
        """Read every slot of the KV of `requests`, and fail the requests whose KV is corrupt."""
        self.refuse_corrupt(read_back(self._pool.plane, requests))

    def refuse_corrupt(self, breaches: Sequence[Breach]) -> None:
        """Fail the requests whose KV is corrupt. Their blocks are no longer shared."""
        for breach in breaches:
            self._pool.unpublish(breach.block)
            request = self._requests.by_id.get(breach.request_id)
            if request is None:
                continue
            self._env.counters.hit("kv.tag_breach")
            history = self._env.ledger.history(request.id)
            text = f"{request.id}: block {breach.block} (index {breach.index}), {breach.what}; {history}"
            self._env.tell("invariant", "kv.tags", text)
            end = end_of(KvCorruption("a KV block did not hold what was written"))
            self._requests.end(request, end)

    def _advance(self, request: Request, computed: int, sampled: Sampled | None, now_ns: int) -> None:
        if request.first_ns is None and sampled is not None:
            self._progress.prompt_tokens += len(request.submit.prompt)
        request.advance(computed, sampled, now_ns)
        self._requests.scheduler.publish(request)
        if sampled is None:
            return
        self._progress.generation_tokens += 1
        finish = request.finish_reason()
        if finish is None:
            self._requests.tell(request, sampled)
        else:
            self.end_well(request, finish, (sampled,))
