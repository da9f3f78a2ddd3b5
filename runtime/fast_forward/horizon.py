"""How far fast-forward may go: as long as the scheduler, asked before each step, would plan the same rows again.

It would let nobody in, so each request that waits must stay out; it would give each row its next token, so there must
be blocks. Of those that wait only the head of the queue is asked about, as the scheduler asks: a seat, and room.
"""

from collections.abc import Sequence

from runtime.memory.kv.paged import PagedPool
from runtime.scheduling.request import Request
from runtime.scheduling.scheduler import Limits, Scheduler

AHEAD = 16
"""Steps for which the room of the head of the queue is looked at one by one."""


def same_plans(rows: Sequence[Request], most: int, scheduler: Scheduler, pool: PagedPool, limits: Limits) -> int:
    """How many steps of `rows` follow each other, up to `most`; the first of them is planned and has its blocks.

    `rows` are all requests that run, and have no full block that is not published.
    """
    size = pool.block_tokens
    spare = [len(one.blocks) * size - one.computed - 1 for one in rows]
    behind = blocks_last(spare, most - 1, size, pool.reclaimable)
    return 1 + _nobody_enters(scheduler, pool, limits, spare, behind)


def blocks_last(spare: Sequence[int], most: int, size: int, free: int) -> int:
    """For how many of `most` steps `free` blocks last. `spare` [rows]: slots that are free in each row's last block."""
    if _taken(spare, most, size) <= free:
        return most
    low, high = 0, most  # there are enough for `low` steps and not for `high`
    while high - low > 1:
        middle = (low + high) // 2
        if _taken(spare, middle, size) <= free:
            low = middle
        else:
            high = middle
    return low


def _nobody_enters(scheduler: Scheduler, pool: PagedPool, limits: Limits, spare: Sequence[int], most: int) -> int:
    """For how many of `most` steps behind the first no request that waits is let in or has another one preempted."""
    running, waiting = scheduler.running, scheduler.waiting
    if not waiting or most == 0:
        return most
    head = waiting[0]
    if any(one.submit.priority < head.submit.priority for one in running):
        return 0
    if len(running) >= min(limits.seqs_max, limits.token_budget):
        return most
    # What is cached of the head's prompt can only become less, but for a twin that is ahead of it.
    if head.generated and any(one.submit.prompt == head.submit.prompt for one in running):
        return 0
    # Rows get their blocks before the head is asked, so one step's more are taken: it is let in no sooner than thought.
    prospect = scheduler.capacity_check(head)
    for step in range(min(most, AHEAD)):
        if prospect.fits(step + 1, _taken(spare, step, pool.block_tokens)):
            return step
    return min(most, AHEAD)


def _taken(spare: Sequence[int], steps: int, size: int) -> int:
    """Blocks that `steps` steps take."""
    return sum([-(-(steps - each) // size) for each in spare if each < steps])
