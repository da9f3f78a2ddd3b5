"""How far a leap may go: as long as the scheduler, asked before each of its steps, would say the same.

It would let nobody in, so each who waits must stay out; it would give each who runs its next token, so there must be
blocks. Who waits is only asked as the scheduler asks: the head of the queue, and whether it has a seat and room.
"""

from collections.abc import Sequence

from runtime.engine import Engine
from runtime.memory.kv.paged import PagedPool
from runtime.scheduling.request import Request
from runtime.scheduling.scheduler import Limits, Scheduler

AHEAD = 16
"""Steps for which the head's room is looked at one by one; more are seldom leapt over while somebody waits."""


def decode_only(engine: Engine, limits: Limits, running: Sequence[Request]) -> bool:
    """Whether nothing is in flight or planned, and each who runs has one token to compute and will draw the next."""
    if not running or engine._flight is not None or engine._due or engine.fatal or len(running) > limits.token_budget:
        return False
    for one in running:
        # A prompt with one token left also has 1 remaining, but its first answer is an event of its own.
        if one.computed != len(one.tokens) - 1 or one.first_ns is None or one.copying is not None:
            return False
        if one.submit.stop_tokens or one.submit.model_key:
            return False
    return True


def blocks_last(pool: PagedPool, running: Sequence[Request], most: int) -> int:
    """For how many of so many steps there are blocks."""
    size, room = pool.block_tokens, pool.reclaimable
    spare = [len(one.blocks) * size - one.computed for one in running]
    if _taken(spare, most, size) <= room:
        return most
    low, high = 0, most  # there are enough for `low` steps and not for `high`
    while high - low > 1:
        middle = (low + high) // 2
        if _taken(spare, middle, size) <= room:
            low = middle
        else:
            high = middle
    return low


def nobody_enters(scheduler: Scheduler, pool: PagedPool, limits: Limits, most: int) -> int:
    """For how many of so many steps who waits would not be let in, nor have anybody preempted."""
    running, waiting = scheduler.running, scheduler.waiting
    if not waiting or most == 0:
        return most
    head = waiting[0]
    if any(one.submit.priority < head.submit.priority for one in running):
        return 0
    if len(running) >= min(limits.seqs_max, limits.token_budget):
        return most
    # What is known of its beginning can only become less, but for a twin that is ahead of it and publishes.
    if head.generated and any(one.submit.prompt == head.submit.prompt for one in running):
        return 0
    return _without_room(head, scheduler, pool, most)


def _without_room(head: Request, scheduler: Scheduler, pool: PagedPool, most: int) -> int:
    """Ask for its room before each step, until there is some."""
    running, size = scheduler.running, pool.block_tokens
    spare = [len(one.blocks) * size - one.computed for one in running]
    prospect = scheduler.prospect(head)
    for step in range(min(most, AHEAD)):
        if prospect.fits(step, _taken(spare, step, size)):
            return step
    return min(most, AHEAD)


def _taken(spare: Sequence[int], steps: int, size: int) -> int:
    """Blocks that are taken in so many steps, by slots that are free in each one's last block."""
    return sum([-(-(steps - each) // size) for each in spare if each < steps])
