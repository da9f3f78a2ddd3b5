"""Layers 4 and 5: the scheduler and the order of results."""

from dataclasses import replace

import pytest

from runtime.core.errors import OutOfBlocks
from runtime.core.work import Sampled
from runtime.engine.landing import Landing
from runtime.engine.open_requests import OpenRequests
from runtime.scheduling import scheduler as scheduling
from runtime.scheduling.capacity import Capacity
from runtime.scheduling.queues import Queues
from runtime.scheduling.request import Request, RequestState
from runtime.scheduling.scheduler import Scheduler
from runtime.server.session import Session
from tests.planted.zoo.bug import Every, bug


@bug("Z58", "streams", "a pending token is replaced by one of a later batch", "clean", "corrupt")
def ring_too_small(patch: pytest.MonkeyPatch) -> None:
    tell, last, now = OpenRequests.tell, [Sampled(65)], Every(60)

    def replaced(self, request, sampled):
        tell(self, request, last[0] if now() else sampled)
        last[0] = sampled

    patch.setattr(OpenRequests, "tell", replaced)


@bug("Z68", "scheduler", "the scheduler freezes for good with work waiting", "pr-swap", "refused")
def frozen(patch: pytest.MonkeyPatch) -> None:
    fits, calls = Capacity.fits, [0]

    def never_again(self, request, cached, without=(), *, soon=False):
        if request.swapped is not None:
            calls[0] += 1
        return calls[0] < 5 and fits(self, request, cached, without, soon=soon)

    patch.setattr(Capacity, "fits", never_again)


@bug("Z70", "scheduler", "every request cycles: preempted, queued, preempted", "pr-recompute", "preempted")
def preempted_in_circles(patch: pytest.MonkeyPatch) -> None:
    plan, turns = Scheduler.plan, [0]

    def cycles(self):
        turns[0] += 1
        if turns[0] > 500 and len(self.running) > 1:
            for one in list(self.running):
                if not one.copying:
                    self.preemption.preempt(one)
        return plan(self)

    patch.setattr(Scheduler, "plan", cycles)


@bug(
    "Z71", "scheduler", "preempted requests are put back into the list of those that run", "pr-recompute", "standstill"
)
def running_list_restored(patch: pytest.MonkeyPatch) -> None:
    def requeue(self, request):
        self.enqueue(request)  # and it still runs

    patch.setattr(Queues, "requeue", requeue)


@bug(
    "Z74",
    "scheduler",
    "a freed block id reappears in the table of a resumed request",
    "pr-recompute",
    "has begun already",
)
def stashed_block(patch: pytest.MonkeyPatch) -> None:
    strip, now = Request.strip, Every(4)

    def keeps_one(self):
        blocks, generations = list(self.blocks), list(self.generations)
        gone = strip(self)
        if self.state is RequestState.RUNNING and blocks and now():
            self.blocks, self.generations = blocks[-1:], generations[-1:]
        return gone

    patch.setattr(Request, "strip", keeps_one)


@bug("Z77", "scheduler", "a shortage of blocks fails every request that runs", "pr-recompute", "refused")
def all_fail_for_one(patch: pytest.MonkeyPatch) -> None:
    take = Scheduler._take

    def all_or_nothing(self, request, need):
        if take(self, request, need):
            return True
        for one in list(self.running):
            self._refuse(one, OutOfBlocks("the shared context is full"))
        return False

    patch.setattr(Scheduler, "_take", all_or_nothing)


@bug("Z79", "scheduler", "a dummy token is streamed after each chunk of a prompt", "pr-shared-prefix", "were asked for")
def dummy_tokens(patch: pytest.MonkeyPatch) -> None:
    advance = Landing._advance

    def one_output_per_chunk(self, request, computed, sampled, now_ns):
        advance(self, request, computed, sampled, now_ns)
        if sampled is None:
            self._requests.tell(request, Sampled(0))

    patch.setattr(Landing, "_advance", one_output_per_chunk)


@bug("Z80", "scheduler", "an answer cut by its limit is reported as complete", "clean", "finish")
def always_stop(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Session, "_reason", lambda self, end: "stop")


@bug("Z95", "tenancy", "the urgent wait when seats and not memory are short", "pr-priority", "urgent")
def no_victims_for_seats(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scheduling, "select_victims", lambda head, running, quantum, enough: [])


@bug("Z97", "tenancy", "more wait than the limit of the queue allows", "pr-overload", "waiting")
def no_limit(patch: pytest.MonkeyPatch) -> None:
    admit = Scheduler.admit

    def unlimited(self, submit):
        limits = self._limits
        self._limits = replace(limits, waiting_max=10**6)
        try:
            return admit(self, submit)
        finally:
            self._limits = limits

    patch.setattr(Scheduler, "admit", unlimited)
