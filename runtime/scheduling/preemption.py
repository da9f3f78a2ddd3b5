"""Preemption: a running request gives up its blocks, returns to its place in the queue, and resumes the cheapest way.

    mode        KV of the request                             cost (ns)
    swap        is copied to the host and back                2 x blocks x measured time to copy a block
    recompute   is discarded and computed again               tokens x measured time to compute a prompt token
    fail        is discarded                                  429 now, when it can't resume before its deadline

A swap that is refused, or whose copy fails in either direction, becomes a recompute: no request ends because of it.
"""

from collections.abc import Callable
from enum import StrEnum
from itertools import takewhile

from runtime.core.env import Env
from runtime.core.errors import Preempted, RuntimeFailure, SwapRefused
from runtime.core.ports import Ticket
from runtime.core.work import Copy, Way
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.swap import SwapSpace
from runtime.scheduling.points import SCHED_PREEMPT
from runtime.scheduling.queues import Queues
from runtime.scheduling.rates import Rates
from runtime.scheduling.request import Request, RequestState

Refuse = Callable[[Request, RuntimeFailure], None]
"""Ends a request now with a failure."""


class Mode(StrEnum):
    """The way in which preempted requests resume; AUTO selects the cheapest for each."""

    AUTO = "auto"
    SWAP = "swap"
    RECOMPUTE = "recompute"
    FAIL = "fail"


class Preemption:
    """Preempts and resumes the requests of one scheduler. Without `swap` (None), SWAP and AUTO recompute."""

    def __init__(
        self, env: Env, pool: PagedPool, queues: Queues, swap: SwapSpace | None, mode: Mode, refuse: Refuse
    ) -> None:
        self.rates = Rates()
        self.copies: dict[Ticket, Request] = {}
        """Copies in flight, in both directions."""
        self._env = env
        self._pool = pool
        self._queues = queues
        self._swap = swap
        self._mode = mode
        self._refuse = refuse

    @property
    def swapped(self) -> int:
        """Number of waiting requests whose KV is on the host."""
        if self._swap is None or not self._swap.count:
            return 0
        return sum(one.swapped is not None for one in self._queues.waiting)

    def forced(self, last: Request) -> bool:
        """Return whether an armed fault forces the preemption of `last`, the last running request in rank."""
        return last.owner.fire(SCHED_PREEMPT, self._env.faults) is not None

    def preempt(self, victim: Request) -> None:
        """Preempt the running `victim`. Its blocks are released now, or once their copy is done. The request returns to
        its place in the queue, or ends with Preempted."""
        env = self._env
        env.counters.hit("kv.preempt")
        env.ledger.note(victim.id, env.clock.now_ns(), f"preempted at {victim.computed} tokens")
        victim.preempted += 1
        try:
            mode = self._choose(victim)
        except Preempted as failure:
            env.counters.hit("preempt.fail")
            self._refuse(victim, failure)
            return
        if mode is Mode.SWAP and victim.computed and self._swap_out(victim):
            self._queues.requeue(victim)
        else:
            env.counters.hit("preempt.recompute")
            self._start_over(victim)

    def swap_in(self, request: Request) -> bool:
        """Take blocks for the waiting, swapped `request` and start to copy its KV into them.

        Return False when the copy is refused: the request then recomputes its KV. Raises OutOfBlocks.
        """
        swapped = request.swapped
        assert swapped is not None and self._swap is not None
        blocks, generations = self._pool.take(request.owner, swapped.blocks)
        try:
            ticket = self._swap.swap_in(request.owner, swapped, blocks)
        except SwapRefused as refusal:
            self._pool.release(request.owner, blocks, None)
            self._env.counters.hit("swap.refused")
            self._recompute_swapped(request, f"swap in refused: {refusal}")
            return False
        request.give(blocks, generations)
        request.copying = ticket
        self.copies[ticket] = request
        self._queues.start(request)
        return True

    def landed(self, ticket: Ticket) -> None:
        """Handle a completed or failed copy. Its request may have ended meanwhile."""
        request, copy = self.copies.pop(ticket), ticket.work
        assert isinstance(copy, Copy) and ticket.done_ns is not None
        if ticket.error is None:
            self.rates.copied(len(copy.blocks), ticket.done_ns - ticket.launched_ns)
            if copy.way is Way.OUT:
                self._env.counters.hit("swap.out")
            else:
                self._env.counters.hit("swap.in")
        if request.state is RequestState.ENDED:
            return
        request.copying = None
        if ticket.error is not None:
            if copy.way is Way.IN:
                self._start_over(request)
            self._env.counters.hit("swap.failed")
            self._recompute_swapped(request, f"{copy} failed: {ticket.error}")
        elif copy.way is Way.IN:
            request.needs_full_check = True
            self._free_swapped(request)

    def end(self, request: Request, after: Ticket | None) -> None:
        """Release the host memory and the blocks of `request`, which ends, once its copy, or else `after`, is done."""
        last = request.copying or after
        if request.swapped is not None:
            assert self._swap is not None
            self._swap.free(request.swapped, request.copying or request.swapped.ticket)
            request.swapped = None
        self._pool.release(request.owner, request.strip(), last)

    def _choose(self, victim: Request) -> Mode:
        """Return the cheapest way. Raises Preempted when the request can't resume."""
        faults = self._env.faults
        if faults.armed:
            victim.owner.fire(SCHED_PREEMPT, faults, place="in_flight")
        if self._mode is Mode.FAIL:
            raise Preempted("preempted for its KV blocks, and this server does not resume requests")
        if self._mode is not Mode.AUTO:
            return self._mode
        costs_ns = {Mode.RECOMPUTE: (victim.computed - self._shared_tokens(victim)) * self.rates.token_ns}
        if self._swap is not None:
            costs_ns[Mode.SWAP] = 2 * len(victim.blocks) * self.rates.block_ns
        cheapest = min(costs_ns, key=lambda mode: costs_ns[mode])
        left_ns = victim.submit.deadline_ns - self._env.clock.now_ns()
        if costs_ns[cheapest] > left_ns:
            raise Preempted(
                f"preempted for its KV blocks, and can't resume within the {left_ns / 1e9:.3f} s before its deadline"
            )
        return cheapest

    def _shared_tokens(self, victim: Request) -> int:
        """Return how many of the victim's first tokens lie in shared blocks: they stay and are not recomputed."""
        holders = self._env.ledger.holders(self._pool.name)
        shared = takewhile(lambda block: holders[block] > 1, victim.blocks)
        return sum(self._pool.block_tokens for _ in shared)

    def _swap_out(self, victim: Request) -> bool:
        """Start to copy the victim's KV to the host. Return False when no swap space takes it."""
        if self._swap is None:
            return False
        try:
            swapped = self._swap.swap_out(victim.owner, victim.blocks)
        except SwapRefused as refusal:
            self._env.counters.hit("swap.refused")
            self._env.ledger.note(victim.id, self._env.clock.now_ns(), f"no swap: {refusal}")
            return False
        victim.mark_swapped(swapped)
        self.copies[swapped.ticket] = victim
        return True

    def _start_over(self, request: Request) -> None:
        """Release the blocks of a running request and return it to its place in the queue. No launch that reads or
        writes its blocks is in flight."""
        self._pool.release(request.owner, request.strip(), None)
        self._queues.requeue(request)

    def _recompute_swapped(self, request: Request, why: str) -> None:
        """Discard the KV on the host of a waiting request, which will recompute it. `why` goes to its history."""
        self._env.ledger.note(request.id, self._env.clock.now_ns(), why)
        request.strip()
        self._free_swapped(request)

    def _free_swapped(self, request: Request) -> None:
        assert self._swap is not None and request.swapped is not None
        self._swap.free(request.swapped, None)
        request.swapped = None
