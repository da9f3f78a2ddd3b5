"""Continuous batching under one token budget: each step, `computed` chases `len(tokens)` for as many requests as fit.

After Yu et al. 2022 (Orca, iteration-level scheduling) and Agrawal et al. 2023 (SARATHI, chunked prefill). There are no
prefill and decode modes: decodes go first since they cost one token each, then prompts that have begun, then the queue.

When blocks run out, the ladder is: evict what is only cached, preempt the last in rank (it keeps its place), and when
nobody is left to wait for, reject. Blocks that are on their way back are waited for before anybody else is preempted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runtime.core.env import Env
from runtime.core.errors import InvalidRequest, MailboxFull, OutOfBlocks
from runtime.core.messages import Submit
from runtime.core.ports import Ticket
from runtime.memory.kv.figures import Holding
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.swap import SwapSpace
from runtime.scheduling.batch import Batch, Row, by_model
from runtime.scheduling.capacity import Capacity, CapacityCheck
from runtime.scheduling.points import SCHED_ADMIT
from runtime.scheduling.preemption import Mode, Preemption, Refuse
from runtime.scheduling.queues import Queues
from runtime.scheduling.rank import rank_of
from runtime.scheduling.request import Request, RequestState
from runtime.scheduling.victims import last_behind, select_victims


@dataclass(frozen=True, slots=True)
class Limits:
    """What one step and the queue may hold, and how those inside are treated."""

    token_budget: int = 512
    """New tokens a step, over all rows."""
    seqs_max: int = 32
    """Requests that run at once."""
    waiting_max: int = 256
    """Requests in the queue; one more is 429."""
    expected_output: float = 1.0
    """Share of `max_tokens` that a request is expected to generate, when it is decided whether the pool can hold it
    beside those that run. Below 1 lets more in, and preempts more."""
    preemption: Mode = Mode.AUTO
    ageing_s: float = 30.0
    """Head start of each level of priority."""
    quantum: int = 8
    """Launches that a request may finish, once it runs, before one of higher priority takes its place."""


class Scheduler:
    """Decides who runs. Owns the queue and the running set; blocks belong to requests, by name.

    `refuse` ends a request at once. `swap` None: who is preempted computes its KV again.
    """

    def __init__(
        self, env: Env, pool: PagedPool, limits: Limits, refuse: Refuse, swap: SwapSpace | None = None
    ) -> None:
        self.queues = Queues()
        self.preemption = Preemption(env, pool, self.queues, swap, limits.preemption, refuse)
        self._env = env
        self._pool = pool
        self._limits = limits
        self._refuse = refuse
        self._space = Capacity(env, pool, self.queues.running, limits.expected_output)
        self._admitted = 0

    @property
    def waiting(self) -> list[Request]:
        """By rank."""
        return self.queues.waiting

    @property
    def running(self) -> list[Request]:
        """By rank."""
        return self.queues.running

    def admit(self, submit: Submit) -> Request:
        """Into the queue. Raises InvalidRequest, MailboxFull, AdmissionRefused, and then nothing has changed."""
        self._refuse_endless(submit)
        if len(self.waiting) >= self._limits.waiting_max:
            raise MailboxFull(len(self.waiting))
        faults = self._env.faults
        if faults.armed:
            faults.fire(SCHED_ADMIT, request=submit.request_id, group=submit.group)
        rank = rank_of(self._env.clock.now_ns(), self._admitted, submit.priority, self._limits.ageing_s)
        request = Request(submit, self._admitted, self._pool.block_tokens, self._pool.version, rank)
        self._admitted += 1
        self.queues.enqueue(request)
        return request

    def plan(self) -> tuple[Batch, ...]:
        """What to launch now, one batch a model; empty when there is nothing to do. Call it only when no launch is in
        flight."""
        while True:
            rows = self._rows()
            if rows or not self._reject_hopeless():
                return by_model(rows)

    def capacity_check(self, request: Request) -> CapacityCheck:
        """Whether the waiting `request` has room, now or after more steps of those that run."""
        return self._space.capacity_check(request, self._cached(request) if request.swapped is None else ())

    def reserve(self, request: Request) -> None:
        """A KV slot for the next token of `request`, as a plan gives it; the pool must have a block if one is due."""
        assert self._room(request, request.computed + 1, []), f"no block for the next token of {request.id}"

    def publish(self, request: Request) -> None:
        """A launch has landed: others may share the blocks that it filled. Never earlier, their KV is not there yet."""
        full = request.computed // self._pool.block_tokens
        if full <= request.published or not self._pool.prefix_cache:
            return
        fresh = slice(request.published, full)
        keys = request.keys_of(full)
        blocks, generations = request.blocks[fresh], request.generations[fresh]
        lost = self._pool.publish_all(request.owner, blocks, generations, keys[fresh])
        if lost:
            self._env.counters.hit("kv.unpublished", lost)
        request.published = full

    def learn(self, batch: Batch, took_ns: int) -> None:
        """`batch` took so long. Launches of hardly more than decodes say nothing about prompts."""
        if batch.tokens > 2 * len(batch.rows):
            self.preemption.rates.computed(batch.tokens, took_ns)

    def holdings(self) -> list[Holding]:
        """What each request that has not ended has of KV, those that run first; without those that have none."""
        found = [one.holding for one in self.running]
        return found + [one.holding for one in self.waiting if one.swapped is not None]

    def remove(self, request: Request, after: Ticket | None) -> None:
        """`request` has ended: out of every list, and what it holds back once `after` is done."""
        self.queues.leave(request)
        self.preemption.end(request, after)

    # -- one plan -----------------------------------------------------------------------------------------------------

    def _rows(self) -> list[Row]:
        rows: list[Row] = []
        budget = self._limits.token_budget
        self._preempt_for_head()
        able = [(request, len(request.tokens) - request.computed) for request in self.running if not request.copying]
        first = [request for request, remaining in able if remaining == 1]
        for request in first + [request for request, remaining in able if remaining > 1]:
            if request.state is RequestState.RUNNING:  # not preempted by one before it
                budget -= self._add(request, budget, rows)
        while self.waiting and budget > 0 and len(self.running) < self._limits.seqs_max:
            head = self.waiting[0]
            if head.swapped is not None:
                if not self._swap_in(head) and head.swapped is not None:
                    break
                continue  # it runs, or its KV is given up and it begins anew
            tokens = self._begin(head, budget, rows)
            if not tokens:
                break
            budget -= tokens
        return rows

    def _preempt_for_head(self) -> None:
        """Before rows are given: who must leave for one that waits, or because a fault says so."""
        last = last_behind(self.running, self.running[0].rank, ()) if self.running else None
        if last is not None and last.launches and self.preemption.forced(last):
            self.preemption.preempt(last)
            return
        if not self.waiting:
            return
        head = self.waiting[0]
        if any(one.submit.priority < head.submit.priority for one in self.running):
            for victim in select_victims(head, self.running, self._limits.quantum, self._enough_for(head)):
                self.preemption.preempt(victim)

    def _enough_for(self, head: Request) -> Callable[[Sequence[Request]], bool]:
        """Whether `head` has a seat and room once these have left."""
        cached = self._cached(head) if head.swapped is None else []

        def enough(leaving: Sequence[Request]) -> bool:
            seats = self._limits.seqs_max - len(self.running) + len(leaving)
            return seats > 0 and self._space.fits(head, cached, leaving, soon=True)

        return enough

    def _begin(self, request: Request, budget: int, rows: list[Row]) -> int:
        """Let the head of the queue in, behind what is cached of it; 0 when it has no room: it then holds nothing."""
        cached = self._cached(request)
        if not self._space.fits(request, cached):
            return 0
        if cached:
            request.adopt_prefix(cached, self._pool.share(request.owner, cached))
        tokens = self._add(request, budget, rows)
        if not tokens:
            self._pool.release(request.owner, request.strip(), None)
        elif self._pool.prefix_cache:
            self._pool.looked_up(request.owner, len(request.tokens), request.computed)
        return tokens

    def _swap_in(self, request: Request) -> bool:
        """Let the head of the queue in again, with the KV that it has on the host. False: not now."""
        assert request.swapped is not None
        # Not `ticket.done`: the device says that from its own thread, before the copy has landed here.
        if request.swapped.ticket in self.preemption.copies or not self._space.fits(request, ()):
            return False
        try:
            return self.preemption.swap_in(request)
        except OutOfBlocks:
            self._env.counters.hit("kv.out_of_blocks")
            request.refused += 1
            return False

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
        if request.state is RequestState.WAITING:
            self._start(request)
        rows.append(Row(request, tokens))
        return tokens

    def _chunk(self, request: Request, budget: int) -> int:
        """How much of it to compute: all that remains, or a part that ends at a block's edge."""
        remaining = len(request.tokens) - request.computed
        if remaining <= budget:
            return remaining
        end = request.computed + budget
        aligned = end - end % self._pool.block_tokens
        return aligned - request.computed if aligned > request.computed else budget

    def _room(self, request: Request, tokens: int, rows: list[Row]) -> bool:
        """Blocks for `tokens` tokens of `request`, preempting those behind it that have no row yet if need be."""
        if tokens <= len(request.blocks) * self._pool.block_tokens:
            return True
        need, preempted = self._pool.blocks_for(tokens) - len(request.blocks), False
        while not (taken := self._take(request, need)):
            if self._space.coming(need):
                break
            victim = last_behind(self.running, request.rank, [row.request for row in rows])
            if victim is None or (victim is request and self._alone_for_ever(request, need)):
                return False
            self.preemption.preempt(victim)
            if victim is request:
                return False
            preempted = True
        if preempted:
            self._pool.saved_by("preempt")
        return taken

    def _take(self, request: Request, need: int) -> bool:
        """Give it `need` blocks more, if the pool has them."""
        try:
            request.give(*self._pool.take(request.owner, need))
        except OutOfBlocks:
            self._env.counters.hit("kv.out_of_blocks")
            request.refused += 1
            return False
        return True

    def _alone_for_ever(self, request: Request, need: int) -> bool:
        """It would give its blocks up for nobody but itself, again and again: then it is rejected instead."""
        if len(self.running) > 1 or self.preemption.copies or self._pool.count().reclaimable >= need:
            return False
        self._reject(request)
        return True

    def _reject(self, request: Request) -> None:
        """The last rung of the ladder."""
        self._env.counters.hit("kv.reject")
        self._pool.saved_by("reject")
        text = f"no KV blocks for its {len(request.tokens)} tokens, and nothing to wait for"
        self._refuse(request, OutOfBlocks(text))

    def _start(self, request: Request) -> None:
        self.queues.start(request)
        if request.admit_ns is None:
            request.admit_ns = self._env.clock.now_ns()
            request.cached = request.computed
            self._env.ledger.note(request.id, request.admit_ns, "admitted")

    def _refuse_endless(self, submit: Submit) -> None:
        """A request that can never be served to its end is a mistake of its client."""
        if self._pool.blocks_for(total := len(submit.prompt) + submit.max_tokens) > self._pool.blocks:
            raise InvalidRequest(
                f"prompt and max_tokens need {total} tokens of KV, the pool holds "
                f"{self._pool.blocks * self._pool.block_tokens}; ask for fewer",
                param="max_tokens",
                code="context_length_exceeded",
            )

    def _reject_hopeless(self) -> bool:
        """With nothing running and nothing on its way back, who heads the queue waits for nobody: reject it."""
        if self.running or not self.waiting or self._pool.count().limbo or self.preemption.copies:
            return False
        self._reject(self.waiting[0])
        return True
