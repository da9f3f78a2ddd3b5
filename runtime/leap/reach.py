"""How far a leap may go: as long as the scheduler, asked before each of its steps, would say the same.

It would let nobody in, so each who waits must stay out; it would give each who runs its next token, so there must be
blocks. Who waits is only asked as the scheduler asks: the head of the queue, and whether it has a seat and room.
"""

from collections.abc import Sequence
from itertools import pairwise

from runtime.leap.leapt import Leapt
from runtime.memory.kv.paged import PagedPool
from runtime.scheduling.scheduler import Limits, Scheduler

AHEAD = 16
"""Steps for which the head's room is looked at one by one; more are seldom leapt over while somebody waits."""


def steps_behind(going: Leapt, scheduler: Scheduler, pool: PagedPool, limits: Limits) -> int:
    """How many steps may follow the first."""
    rows, size = going.rows, pool.block_tokens
    most = min(min(going.rooms), min(going.left)) - 1
    if most <= 0 or not going.is_whole or len(rows) != len(scheduler.running) or len(rows) > limits.token_budget:
        return 0
    if any(one.rank > two.rank for one, two in pairwise(rows)):  # decodes of later steps come in order of rank
        return 0
    if scheduler.waiting and not (going.is_plain and _all_published(going, pool)):
        return 0  # what becomes known in step 1 may let somebody in
    spare = [len(one.blocks) * size - end for one, end in zip(rows, going.ends, strict=True)]
    return nobody_enters(scheduler, pool, limits, spare, blocks_last(spare, most, size, pool.reclaimable))


def _all_published(going: Leapt, pool: PagedPool) -> bool:
    """Whether nobody has full blocks that others do not know of, as who came back from the host has."""
    size = pool.block_tokens
    return not pool.prefix_cache or not [one for one in going.rows if one.published < one.computed // size]


def blocks_last(spare: Sequence[int], most: int, size: int, room: int) -> int:
    """For how many of so many steps there are blocks: `room` of them, and `spare` slots in each one's last block."""
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


def nobody_enters(scheduler: Scheduler, pool: PagedPool, limits: Limits, spare: Sequence[int], most: int) -> int:
    """For how many of so many steps behind the first who waits would not be let in, nor have anybody preempted."""
    running, waiting = scheduler.running, scheduler.waiting
    if not waiting or most == 0:
        return most
    head = waiting[0]
    if any(one.submit.priority < head.submit.priority for one in running):
        return 0
    if len(running) >= min(limits.seqs_max, limits.token_budget):
        return most
    # What is known of its beginning can only become less, since all prompts are published, but for a twin ahead of it.
    if head.generated and any(one.submit.prompt == head.submit.prompt for one in running):
        return 0
    # Rows get their blocks before the head is asked, so one step's more are taken: it is let in no sooner than thought.
    prospect = scheduler.prospect(head)
    for step in range(min(most, AHEAD)):
        if prospect.fits(step + 1, _taken(spare, step, pool.block_tokens)):
            return step
    return min(most, AHEAD)


def _taken(spare: Sequence[int], steps: int, size: int) -> int:
    """Blocks that are taken in so many steps, by slots that are free in each one's last block."""
    return sum([-(-(steps - each) // size) for each in spare if each < steps])
