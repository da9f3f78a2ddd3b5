"""Preemption: who runs gives its blocks to others and comes back in its old place, the cheapest way.

    swap        its KV goes to the host and comes back        2 x blocks x what a block's copy costs here
    recompute   its KV is thrown away and computed again      tokens x what a prompt's token costs here
    fail        it could not be back before its deadline      429 now, rather than 504 later

A swap that is refused, or whose copy fails on either way, becomes a recompute: it costs time and never an answer.
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
"""End this request now, with this failure."""


class Mode(StrEnum):
    """What becomes of who is preempted; AUTO is the cheapest."""

    AUTO = "auto"
    SWAP = "swap"
    RECOMPUTE = "recompute"
    FAIL = "fail"


class Preemption:
    """Of one scheduler. `swap` None: no room on the host, so SWAP and AUTO recompute."""

    def __init__(
        self, env: Env, pool: PagedPool, queues: Queues, swap: SwapSpace | None, mode: Mode, refuse: Refuse
    ) -> None:
        self.rates = Rates()
        self.copies: dict[Ticket, Request] = {}
        """In flight, whichever way."""
        self._env = env
        self._pool = pool
        self._queues = queues
        self._swap = swap
        self._mode = mode
        self._refuse = refuse

    @property
    def swapped(self) -> int:
        """Of those that wait: with their KV on the host."""
        if self._swap is None or not self._swap.count:
            return 0
        return sum(one.swapped is not None for one in self._queues.waiting)

    def forced(self, last: Request) -> bool:
        """Whether a fault wants `last` preempted now."""
        faults = self._env.faults
        if not faults.armed:
            return False
        return last.owner.fire(SCHED_PREEMPT, faults) is not None

    def preempt(self, victim: Request) -> None:
        """Its blocks go back, now or when their copy is done, and it to its place in the queue, or to its end."""
        env = self._env
        env.counters.hit("kv.preempt")
        env.ledger.note(victim.id, env.clock.now_ns(), f"preempted at {victim.computed} tokens")
        victim.preempted += 1
        try:
            mode = self._choose(victim)
        except Preempted as failure:
            self._refuse(victim, failure)
            return
        if mode is Mode.SWAP and victim.computed and self._swap_out(victim):
            self._queues.back(victim)
        else:
            self._start_over(victim)

    def swap_in(self, request: Request) -> bool:
        """Take blocks for the KV of the swapped `request`, which is waiting, and begin to copy it into them. False when
        it has to wait for more room, or to begin anew. Raises OutOfBlocks."""
        swapped = request.swapped
        assert swapped is not None and self._swap is not None
        blocks, generations = self._pool.take(request.owner, swapped.blocks)
        try:
            ticket = self._swap.back(request.owner, swapped, blocks)
        except SwapRefused as refusal:
            self._pool.release(request.owner, blocks, None)
            self._env.counters.hit("swap.refused")
            self._give_up(request, f"its KV can't come back: {refusal}")
            return False
        request.give(blocks, generations)
        request.copying = ticket
        self.copies[ticket] = request
        self._queues.start(request)
        return True

    def landed(self, ticket: Ticket) -> None:
        """A copy is done, well or not. Its request may have ended meanwhile."""
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
            self._give_up(request, f"{copy} failed: {ticket.error}")
        elif copy.way is Way.IN:
            request.needs_full_check = True
            self._forget(request)

    def end(self, request: Request, after: Ticket | None) -> None:
        """`request` ends: what it has on the host goes back, and its blocks, after the last that touches them."""
        last = request.copying or after
        if request.swapped is not None:
            assert self._swap is not None
            self._swap.end(request.swapped, request.copying or request.swapped.ticket)
            request.swapped = None
        self._pool.release(request.owner, request.strip(), last)

    def _choose(self, victim: Request) -> Mode:
        """Raises Preempted when it is to fail."""
        faults = self._env.faults
        if faults.armed:
            victim.owner.fire(SCHED_PREEMPT, faults, place="in_flight")
        if self._mode is Mode.FAIL:
            raise Preempted("others need its KV blocks, and this server does not let requests come back")
        if self._mode is not Mode.AUTO:
            return self._mode
        costs_ns = {Mode.RECOMPUTE: (victim.computed - self._kept(victim)) * self.rates.token_ns}
        if self._swap is not None:
            costs_ns[Mode.SWAP] = 2 * len(victim.blocks) * self.rates.block_ns
        cheapest = min(costs_ns, key=lambda mode: costs_ns[mode])
        left_ns = victim.submit.deadline_ns - self._env.clock.now_ns()
        if costs_ns[cheapest] > left_ns:
            raise Preempted(f"others need its KV blocks, and it can't be back in the {left_ns / 1e9:.3f} s that it has")
        return cheapest

    def _kept(self, victim: Request) -> int:
        """Tokens at its beginning whose KV others hold too, so that it finds them again."""
        holders = self._env.ledger.holders(self._pool.name)
        shared = takewhile(lambda block: holders[block] > 1, victim.blocks)
        return sum(self._pool.block_tokens for _ in shared)

    def _swap_out(self, victim: Request) -> bool:
        """Begin to send its KV to the host; False when there is no way."""
        if self._swap is None:
            return False
        try:
            swapped = self._swap.out(victim.owner, victim.blocks)
        except SwapRefused as refusal:
            self._env.counters.hit("swap.refused")
            self._env.ledger.note(victim.id, self._env.clock.now_ns(), f"no swap: {refusal}")
            return False
        victim.mark_swapped(swapped)
        self.copies[swapped.ticket] = victim
        return True

    def _start_over(self, request: Request) -> None:
        """Without its KV, back to its place in the queue. No launch is in flight when this is called for one that
        runs, or none that touches its blocks."""
        self._pool.release(request.owner, request.strip(), None)
        self._queues.back(request)

    def _give_up(self, request: Request, why: str) -> None:
        """The KV on the host is of no use any more: the request, which is waiting, computes it again."""
        self._env.ledger.note(request.id, self._env.clock.now_ns(), why)
        request.strip()
        self._forget(request)

    def _forget(self, request: Request) -> None:
        assert self._swap is not None and request.swapped is not None
        self._swap.end(request.swapped, None)
        request.swapped = None
