"""Who goes first: order of arrival, with a head start for each level of priority.

    rank = when it was admitted - priority x ageing       smaller goes first; equal ones by order of admission

A request of the level below that has waited `ageing_s` longer goes before a fresh one. Both grow older at the same
speed, so a rank never changes and queues stay sorted, and nobody can be overtaken by what comes later than its head
start allows: there is no starvation.
"""

from typing import NamedTuple


class Rank(NamedTuple):
    """Sorts requests; the smallest goes first."""

    t_ns: int
    seq: int


def rank_of(now_ns: int, seq: int, priority: int, ageing_s: float) -> Rank:
    """Of a request that is admitted `now_ns` as the `seq`th. Higher `priority` goes first."""
    return Rank(now_ns - round(priority * ageing_s * 1e9), seq)
