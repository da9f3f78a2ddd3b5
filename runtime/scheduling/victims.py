"""Who is preempted: as few as will do, those behind first, and never one who goes before who asks."""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from runtime.scheduling.rank import Rank
from runtime.scheduling.request import Request


def last_behind(running: Sequence[Request], rank: Rank, planned: Sequence[Request]) -> Request | None:
    """The last in rank that runs, is not in `planned` and does not go before `rank`. May be who asks."""
    for one in reversed(running):
        if one.rank < rank:
            return None
        if one.copying is None and one not in planned:
            return one
    return None


def select_victims(
    head: Request, running: Sequence[Request], quantum: int, enough: Callable[[Sequence[Request]], bool]
) -> list[Request]:
    """Who must leave so that the waiting `head` can run: of strictly lower priority, behind it in rank, and with
    `quantum` launches done since they began to run. None of them when all together would not be enough.

    After SGLang's preempt_to_schedule: the smallest sufficient set, lowest priority and last in rank first.
    """
    if enough(()):
        return []
    below = [one for one in reversed(running) if _may_go(one, head, quantum)]
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


def _may_go(one: Request, head: Request, quantum: int) -> bool:
    return (
        one.submit.priority < head.submit.priority
        and one.rank > head.rank
        and one.launches >= quantum
        and one.copying is None
    )
