"""Continuous batching under one token budget: each step, `computed` chases `len(tokens)` for as many requests as fit.

After Yu et al. 2022 (Orca, iteration-level scheduling) and Agrawal et al. 2023 (SARATHI, chunked prefill). There are no
prefill and decode modes: decodes go first since they cost one token each, then prompts that have begun, then the queue.

When blocks run out, the ladder is: evict what is only cached, preempt the last to arrive (it keeps its place and
recomputes what is not cached), and when nobody is left to wait for, reject.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

from runtime.core.edge import Submit
from runtime.core.env import Env
from runtime.core.errors import InvalidRequest, MailboxFull, OutOfBlocks
from runtime.core.ports import Ticket
from runtime.memory.paged import PagedPool
from runtime.scheduling.batch import Batch, Row
from runtime.scheduling.points import SCHED_ADMIT
from runtime.scheduling.request import Phase, Request


@dataclass(frozen=True, slots=True)
class Limits:
    """What one step and the queue may hold."""

    token_budget: int = 512
    """New tokens a step, over all rows."""
    seqs_max: int = 32
    """Requests that run at once."""
    waiting_max: int = 256
    """Requests in the queue; one more is 429."""


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What to launch now, and who can never run."""

    batches: tuple[Batch, ...] = ()
    rejected: tuple[Request, ...] = ()


class Scheduler:
    """Decides who runs. Owns the queue and the running set; blocks belong to requests, by name."""

    def __init__(self, env: Env, pool: PagedPool, limits: Limits) -> None:
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.prefix_queries = 0
        """Tokens of admitted requests that were looked for in the prefix index, and of these the ones found."""
        self.prefix_hits = 0
        self._env = env
        self._pool = pool
        self._limits = limits
        self._admitted = 0

    def plan(self) -> StepPlan:
        """The next step. Call it only when no launch is in flight."""
        rows: list[Row] = []
        budget = self._limits.token_budget
        decodes = [request for request in self.running if request.remaining == 1]
        prompts = [request for request in self.running if request.remaining > 1]
        for request in decodes + prompts:
            if request.phase is Phase.RUNNING:  # not preempted by one before it
                budget -= self._add(request, budget, rows)
        while self.waiting and budget > 0 and len(self.running) < self._limits.seqs_max:
            tokens = self._begin(self.waiting[0], budget, rows)
            if not tokens:
                break
            budget -= tokens
        if rows:
            return StepPlan(batches=_by_model(rows))
        return StepPlan(rejected=self._hopeless())

    def admit(self, submit: Submit) -> Request:
        """Queue a request.

        Raises InvalidRequest (it could never fit), MailboxFull (the queue is at its bound) or Refused.
        """
        tokens_max = len(submit.prompt) + submit.max_tokens
        if self._pool.blocks_for(tokens_max) > self._pool.blocks:
            capacity = self._pool.blocks * self._pool.block_tokens
            raise InvalidRequest(
                f"prompt and max_tokens need {tokens_max} tokens of KV, the pool holds {capacity}; ask for fewer",
                param="max_tokens",
                code="context_length_exceeded",
            )
        if len(self.waiting) >= self._limits.waiting_max:
            raise MailboxFull(len(self.waiting))
        faults = self._env.faults
        if faults.armed:
            faults.fire(SCHED_ADMIT, request=submit.request_id, group=submit.group)
        request = Request(submit, self._admitted, self._pool.block_tokens, self._pool.version)
        self._admitted += 1
        self.waiting.append(request)
        return request

    def remove(self, request: Request, after: Ticket | None) -> None:
        """`request` has ended: out of every list, and its blocks back once `after` is done."""
        (self.waiting if request.phase is Phase.WAITING else self.running).remove(request)
        stage = request.stage
        self._pool.release(request.id, request.strip(), after, group=request.submit.group, phase=stage)

    def preempt(self, victim: Request) -> None:
        """Back to its place in the queue; its KV is given up and computed again."""
        self._env.marks.hit("kv.preempt")
        self._env.ledger.note(victim.id, self._env.clock.now_ns(), f"preempted at {victim.computed} tokens")
        victim.preempted += 1
        stage = victim.stage
        self._pool.release(victim.id, victim.strip(), None, group=victim.submit.group, phase=stage)
        self.running.remove(victim)
        victim.phase = Phase.WAITING
        insort(self.waiting, victim, key=lambda request: request.seq)

    def publish(self, request: Request) -> None:
        """A launch has landed: others may share the blocks that it filled. Never earlier, their KV is not there yet."""
        full = request.computed // self._pool.block_tokens
        if full <= request.published or not self._pool.prefix_cache:
            return
        pool, group, phase = self._pool, request.submit.group, request.stage
        keys = request.keys_of(full)
        for at in range(request.published, full):
            block, generation = request.blocks[at], request.generations[at]
            pool.publish(request.id, block, generation, keys[at], group=group, phase=phase)
            if not pool.index.knows(keys[at]):
                self._env.marks.hit("kv.unpublished")
        request.published = full

    def _begin(self, request: Request, budget: int, rows: list[Row]) -> int:
        """Let the head of the queue in, behind what is cached of it; 0 when it has no room: it then holds nothing."""
        cached = self._cached(request)
        if not self._fits(request, cached):
            return 0
        if cached:
            request.begin_behind(cached, self._pool.share(request.id, cached))
        tokens = self._add(request, budget, rows)
        if not tokens:
            stage = request.stage
            self._pool.release(request.id, request.strip(), None, group=request.submit.group, phase=stage)
        elif self._pool.prefix_cache:
            self.prefix_queries += len(request.tokens)
            self.prefix_hits += request.computed
        return tokens

    def _cached(self, request: Request) -> list[int]:
        """Blocks that hold its first tokens. Its last token is always computed, since the next is drawn from it."""
        if not self._pool.prefix_cache:
            return []
        full = (len(request.tokens) - 1) // self._pool.block_tokens
        return self._pool.index.find(request.keys_of(full))

    def _add(self, request: Request, budget: int, rows: list[Row]) -> int:
        """Give `request` a row of up to `budget` tokens; 0 when it gets none (then nothing of it is left behind)."""
        tokens = self._chunk(request, budget)
        if not tokens or not self._room(request, request.computed + tokens, rows):
            return 0
        if request.phase is Phase.WAITING:
            self._start(request)
        rows.append(Row(request, tokens))
        return tokens

    def _chunk(self, request: Request, budget: int) -> int:
        """How much of it to compute: all that remains, or a part that ends at a block's edge."""
        if request.remaining <= budget:
            return request.remaining
        end = request.computed + budget
        aligned = end - end % self._pool.block_tokens
        return aligned - request.computed if aligned > request.computed else budget

    def _room(self, request: Request, tokens: int, rows: list[Row]) -> bool:
        """Blocks for `tokens` tokens of `request`, preempting later arrivals that have no row yet if need be."""
        if tokens <= len(request.blocks) * self._pool.block_tokens:
            return True
        need = self._pool.blocks_for(tokens) - len(request.blocks)
        while True:
            try:
                request.give(*self._pool.take(request.id, need, group=request.submit.group, phase=request.stage))
                return True
            except OutOfBlocks:
                self._env.marks.hit("kv.out_of_blocks")
                victim = self._victim(request, rows)
                if victim is None:
                    return False
                self.preempt(victim)
                if victim is request:
                    return False

    def _victim(self, asking: Request, rows: list[Row]) -> Request | None:
        """The last to arrive that runs and has no row in this plan; never one that arrived before who asks."""
        planned = {row.request.id for row in rows}
        behind = [one for one in self.running if one.seq >= asking.seq and one.id not in planned]
        return max(behind, key=lambda one: one.seq, default=None)

    def _start(self, request: Request) -> None:
        self.waiting.remove(request)
        request.phase = Phase.RUNNING
        insort(self.running, request, key=lambda one: one.seq)
        if request.admit_ns is None:
            request.admit_ns = self._env.clock.now_ns()
            request.cached = request.computed
            self._env.ledger.note(request.id, request.admit_ns, "admitted")

    def _fits(self, request: Request, cached: Sequence[int]) -> bool:
        """Room for its whole context and one block for each request that already runs, so it does not preempt them.
        Of `cached` blocks it needs no second one; those that nobody holds are room no longer."""
        if not self.running:
            return True
        need = self._pool.blocks_for(len(request.tokens) + 1) - len(cached) + self._pool.index.idle_among(cached)
        return need + len(self.running) <= self._pool.count().reclaimable

    def _hopeless(self) -> tuple[Request, ...]:
        """With nothing running and nothing on its way back, who heads the queue waits for nobody: reject it."""
        if self.running or not self.waiting or self._pool.count().limbo:
            return ()
        self._env.marks.hit("kv.reject")
        return (self.waiting[0],)


def _by_model(rows: list[Row]) -> tuple[Batch, ...]:
    """One batch for each model, in order of first row."""
    models: dict[str, list[Row]] = {}
    for row in rows:
        models.setdefault(row.request.submit.model_key, []).append(row)
    return tuple(Batch(key, tuple(of_model)) for key, of_model in models.items())
