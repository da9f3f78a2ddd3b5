"""The horizon of fast-forward: the steps for which the scheduler would plan the same rows again.

The scheduler plans the same rows as long as it admits no waiting request and has blocks for the next token of each row.
Like the scheduler, this module only looks at the head of the queue: a free place in the batch, and free blocks.
"""

from collections.abc import Sequence

from runtime.memory.kv.paged import PagedPool
from runtime.scheduling.request import Request
from runtime.scheduling.scheduler import Limits, Scheduler

AHEAD = 16
"""The most steps for which the capacity for the head of the queue is computed, one by one."""


def same_plans(rows: Sequence[Request], most: int, scheduler: Scheduler, pool: PagedPool, limits: Limits) -> int:
    """Return the number of steps of `rows` in a row, up to `most`. The first step is planned and has its blocks.

    `rows` are all running requests; all their full blocks are published.
    """
    size = pool.block_tokens
    spare = [len(one.blocks) * size - one.computed - 1 for one in rows]
    behind = blocks_last(spare, most - 1, size, pool.reclaimable)
    return 1 + _steps_before_entry(scheduler, pool, limits, spare, behind)


def blocks_last(spare: Sequence[int], most: int, size: int, free: int) -> int:
    """Return the number of steps, up to `most`, for which `free` blocks last.

    `spare` [rows] holds the number of free slots in each row's last block.
    """
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


def _steps_before_entry(scheduler: Scheduler, pool: PagedPool, limits: Limits, spare: Sequence[int], most: int) -> int:
    """Return the number of steps behind the first, up to `most`, in which no waiting request enters or preempts."""
    running, waiting = scheduler.running, scheduler.waiting
    if not waiting or most == 0:
        return most
    head = waiting[0]
    if any(one.submit.priority < head.submit.priority for one in running):
        return 0
    if len(running) >= min(limits.seqs_max, limits.token_budget):
        return most
    # The cached part of the head's prompt can only shrink, unless a running request has the same prompt.
    if head.generated and any(one.submit.prompt == head.submit.prompt for one in running):
        return 0
    # Rows get their blocks before the scheduler looks at the head, so the head enters no earlier than computed here.
    prospect = scheduler.capacity_check(head)
    for step in range(min(most, AHEAD)):
        if prospect.fits(step + 1, _taken(spare, step, pool.block_tokens)):
            return step
    return min(most, AHEAD)


def _taken(spare: Sequence[int], steps: int, size: int) -> int:
    """Return the number of blocks that `steps` steps take."""
    return sum([-(-(steps - each) // size) for each in spare if each < steps])
