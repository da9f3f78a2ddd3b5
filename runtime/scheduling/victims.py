"""The choice of requests to preempt: as few as suffice, last in rank first, and never one ahead of the request that
needs the blocks."""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from runtime.scheduling.rank import Rank
from runtime.scheduling.request import Request


def last_behind(running: Sequence[Request], rank: Rank, planned: Sequence[Request]) -> Request | None:
    """Return the last running request in rank that is not in `planned` and not ahead of `rank`. It may be the request
    that needs the blocks itself."""
    for one in reversed(running):
        if one.rank < rank:
            return None
        if one.copying is None and one not in planned:
            return one
    return None


def select_victims(
    head: Request, running: Sequence[Request], quantum: int, enough: Callable[[Sequence[Request]], bool]
) -> list[Request]:
    """Return the running requests to preempt so that the waiting `head` can run; empty when all of them would not be
    enough. A victim has strictly lower priority, is behind `head` in rank, and has completed `quantum` launches.

    After SGLang's preempt_to_schedule: the smallest sufficient set, lowest priority and last in rank first.
    """
    if enough(()):
        return []
    below = [one for one in reversed(running) if _may_be_preempted(one, head, quantum)]
    below.sort(key=lambda one: one.submit.priority)
    if not enough(below):
        return []
    least = bisect_left(range(1, len(below)), True, key=lambda count: enough(below[:count])) + 1
    chosen = below[:least]
    for one in chosen[:-1]:
        rest = [other for other in chosen if other is not one]
        if enough(rest):
            chosen = rest
    return chosen


def _may_be_preempted(one: Request, head: Request, quantum: int) -> bool:
    return (
        one.submit.priority < head.submit.priority
        and one.rank > head.rank
        and one.launches >= quantum
        and one.copying is None
    )
