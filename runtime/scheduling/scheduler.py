"""Continuous batching under one token budget: each step computes uncomputed tokens of as many requests as fit.

After Yu et al. 2022 (Orca, iteration-level scheduling) and Agrawal et al. 2023 (SARATHI, chunked prefill). A step mixes
prefill and decode: decode rows come first since they cost one token each, then started prompts, then the queue.

When blocks run out, the scheduler evicts cached blocks, then waits for copies in flight that free enough blocks, then
preempts the last request in rank. It rejects a request when none of these can free blocks.
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
    """Limits of a step and of the queue, and the rules of preemption."""

    token_budget: int = 512
    """Maximum of new tokens per step, over all rows."""
    seqs_max: int = 32
    """Maximum of running requests."""
    waiting_max: int = 256
    """Maximum of waiting requests; admission refuses one more with 429."""
    expected_output: float = 1.0
    """Expected output as a share of `max_tokens` (capacity.py). Below 1, more requests start and more are preempted."""
    preemption: Mode = Mode.AUTO
    ageing_s: float = 30.0
    """Head start, in seconds, of each level of priority."""
    quantum: int = 8
    """Launches that a running request completes before one of higher priority may preempt it."""


class Scheduler:
    """Selects the rows of each step. It owns the waiting and the running list; the pool holds blocks by request id.

    `refuse` ends a request at once. Without `swap` (None), preempted requests recompute their KV.
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
        self._capacity = Capacity(env, pool, self.queues.running, limits.expected_output)
        self._admitted = 0

    @property
    def waiting(self) -> list[Request]:
        """Waiting requests in order of rank."""
        return self.queues.waiting

    @property
    def running(self) -> list[Request]:
        """Running requests in order of rank."""
        return self.queues.running

    def admit(self, submit: Submit) -> Request:
        """Queue a new request. Raises InvalidRequest, MailboxFull or AdmissionRefused; nothing has changed then."""
        self._refuse_too_large(submit)
        if len(self.waiting) >= self._limits.waiting_max:
            raise MailboxFull(len(self.waiting))
        faults = self._env.faults
        if faults.armed:
            faults.fire(SCHED_ADMIT, request=submit.request_id, group=submit.group)
        rank = rank_of(self._env.clock.now_ns(), self._admitted, submit.priority, self._limits.ageing_s)
        request = Request(submit, self._admitted, self._pool.sequences, self._pool.version, rank)
        self._admitted += 1
        self.queues.enqueue(request)
        return request

    def plan(self) -> tuple[Batch, ...]:
        """Return the batches to launch, one per model; empty when no request can run. No launch may be in flight."""
        while True:
            rows = self._rows()
            if rows or not self._reject_stuck_head():
                return by_model(rows)

    def capacity_check(self, request: Request) -> CapacityCheck:
        """Return the capacity check of the waiting `request`, for now and for later steps of the running requests."""
        return self._capacity.capacity_check(request, self._cached(request) if request.swapped is None else ())

    def reserve(self, request: Request) -> None:
        """Take a block for the next token of `request` if its table is full, as `plan` does. The pool must have one."""
        assert self._ensure_blocks(request, request.computed + 1, []), f"no block for the next token of {request.id}"

    def publish(self, request: Request) -> None:
        """Add the full blocks of `request` to the prefix index, after the launch that wrote their KV has completed."""
        full = request.computed // self._pool.block_tokens
        if full <= request.published or not self._pool.prefix_cache:
            return
        fresh = slice(request.published, full)
        keys = request.keys_of(full)
        blocks, generations = request.blocks[fresh], request.generations[fresh]
        lost = self._pool.publish(request.owner, blocks, generations, keys[fresh])
        if lost:
            self._env.counters.hit("kv.unpublished", lost)
        request.published = full

    def record_duration(self, batch: Batch, took_ns: int) -> None:
        """Record the duration of `batch` as a measure of prompt tokens. Batches of mostly decode rows are ignored."""
        if batch.tokens > 2 * len(batch.rows):
            self.preemption.rates.computed(batch.tokens, took_ns)

    def holdings(self) -> list[Holding]:
        """Return the KV holdings of running and then of swapped requests."""
        found = [one.holding for one in self.running]
        return found + [one.holding for one in self.waiting if one.swapped is not None]

    def remove(self, request: Request, after: Ticket | None) -> None:
        """Remove an ended request from its list, and release its blocks and host memory once `after` is done."""
        self.queues.remove(request)
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
                continue  # it runs, or its KV is discarded and it starts over
            tokens = self._begin(head, budget, rows)
            if not tokens:
                break
            budget -= tokens
        return rows

    def _preempt_for_head(self) -> None:
        """Preempt requests of lower priority for the head of the queue, or the last in rank when a fault forces it."""
        if self._env.faults.armed and self.running:
            last = last_behind(self.running, self.running[0].rank, ())
            if last is not None and last.launches and self.preemption.forced(last):
                self.preemption.preempt(last)
                return
        if not self.waiting:
            return
        head = self.waiting[0]
        if any(one.submit.priority < head.submit.priority for one in self.running):
            for victim in select_victims(head, self.running, self._limits.quantum, self._enough_for(head)):
                self._env.counters.hit("preempt.priority")
                self.preemption.preempt(victim)

    def _enough_for(self, head: Request) -> Callable[[Sequence[Request]], bool]:
        """Return a function that says whether `head` has a seat and blocks once the given requests are preempted."""
        cached = self._cached(head) if head.swapped is None else []

        def enough(leaving: Sequence[Request]) -> bool:
            seats = self._limits.seqs_max - len(self.running) + len(leaving)
            return seats > 0 and self._capacity.fits(head, cached, leaving, soon=True)

        return enough

    def _begin(self, request: Request, budget: int, rows: list[Row]) -> int:
        """Start the head of the queue behind its cached prefix; return its row's tokens, or 0 when it does not fit."""
        cached = self._cached(request)
        if not self._capacity.fits(request, cached):
            return 0
        if cached:
            request.adopt_prefix(cached, self._pool.share(request.owner, cached))
        tokens = self._add(request, budget, rows)
        if not tokens:
            self._pool.release(request.owner, request.strip(), None)
        elif self._pool.prefix_cache and not request.preempted:  # that one finds its own blocks
            self._pool.count_lookup(request.owner, len(request.tokens), request.computed)
        return tokens

    def _swap_in(self, request: Request) -> bool:
        """Resume the swapped head of the queue with its KV from the host. Return False when it can't resume now."""
        assert request.swapped is not None
        # Not `ticket.done`: the device sets that on its own thread, before the engine has handled the copy.
        if request.swapped.ticket in self.preemption.copies or not self._capacity.fits(request, ()):
            return False
        try:
            return self.preemption.swap_in(request)
        except OutOfBlocks:
            self._env.counters.hit("kv.out_of_blocks")
            request.refused += 1
            return False

    def _cached(self, request: Request) -> list[int]:
        """Return the cached blocks of the request's prefix, which excludes its last token: sampling needs that one."""
        if not self._pool.prefix_cache:
            return []
        full = (len(request.tokens) - 1) // self._pool.block_tokens
        return self._pool.index.find(request.keys_of(full))

    def _add(self, request: Request, budget: int, rows: list[Row]) -> int:
        """Give `request` a row of up to `budget` tokens and return its tokens. Return 0, unchanged, when none fits."""
        left = len(request.tokens) - request.computed
        tokens = self._chunk(request, budget) if left > budget else left
        if not tokens or not self._ensure_blocks(request, request.computed + tokens, rows):
            return 0
        if request.state is RequestState.WAITING:
            self._start(request)
        if tokens < left:
            self._env.counters.hit("prefill.chunked")
        rows.append(Row(request, tokens))
        return tokens

    def _chunk(self, request: Request, budget: int) -> int:
        """Return how many of more than `budget` tokens to compute: they end at a block boundary if possible."""
        end = request.computed + budget
        aligned = end - end % self._pool.block_tokens
        return aligned - request.computed if aligned > request.computed else budget

    def _ensure_blocks(self, request: Request, tokens: int, rows: list[Row]) -> bool:
        """Take blocks for `tokens` tokens of `request`, and preempt requests behind it without a row if need be. Return
        False when the blocks are not there."""
        if tokens <= len(request.blocks) * self._pool.block_tokens:
            return True
        need, preempted = self._pool.blocks_for(tokens) - len(request.blocks), False
        while not (taken := self._take(request, need)):
            if self._capacity.freed_by_copies(need):
                break
            victim = last_behind(self.running, request.rank, [row.request for row in rows])
            if victim is None or (victim is request and self._reject_if_alone(request, need)):
                return False
            self.preemption.preempt(victim)
            if victim is request:
                return False
            preempted = True
        if preempted:
            self._pool.count_saved("preempt")
        return taken

    def _take(self, request: Request, need: int) -> bool:
        """Give `request` `need` more blocks. Return False when the pool has fewer."""
        try:
            request.give(*self._pool.take(request.owner, need))
        except OutOfBlocks:
            self._env.counters.hit("kv.out_of_blocks")
            request.refused += 1
            return False
        return True

    def _reject_if_alone(self, request: Request, need: int) -> bool:
        """Reject `request` if it runs alone and no copy will free blocks: it would preempt itself for ever."""
        if len(self.running) > 1 or self.preemption.copies or self._pool.count().reclaimable >= need:
            return False
        self._reject(request)
        return True

    def _reject(self, request: Request) -> None:
        """End `request` with OutOfBlocks, the last resort when blocks run out."""
        self._env.counters.hit("kv.reject")
        self._pool.count_saved("reject")
        text = f"no KV blocks for the request's {len(request.tokens)} tokens, and no other request will free any"
        self._refuse(request, OutOfBlocks(text))

    def _start(self, request: Request) -> None:
        self.queues.start(request)
        if request.admit_ns is None:
            self._env.ledger.note(request.id, self._env.clock.now_ns(), "admitted")
        self._env.counters.hit(request.begin(self._env.clock.now_ns(), self._pool.block_tokens))

    def _refuse_too_large(self, submit: Submit) -> None:
        """Raise InvalidRequest when the whole request can't fit into the empty pool."""
        if self._pool.blocks_for(total := len(submit.prompt) + submit.max_tokens) > self._pool.blocks:
            raise InvalidRequest(
                f"prompt and max_tokens need {total} tokens of KV, the pool holds "
                f"{self._pool.blocks * self._pool.block_tokens}; ask for fewer",
                param="max_tokens",
                code="context_length_exceeded",
            )

    def _reject_stuck_head(self) -> bool:
        """Reject the head of the queue if no running request, limbo or copy can free blocks for it."""
        if self.running or not self.waiting or self._pool.count().limbo or self.preemption.copies:
            return False
        self._reject(self.waiting[0])
        return True
