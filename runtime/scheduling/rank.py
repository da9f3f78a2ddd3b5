"""The order of requests: by admission time, with a head start for each level of priority.

    rank = admission time - priority x ageing_s       the smallest goes first; equal ranks in order of admission

A request that has waited `ageing_s` longer than one of the next higher priority goes before it. Ranks never change, so
queues stay sorted. A later request overtakes an earlier one only within its head start, so no request starves.
"""

from typing import NamedTuple


class Rank(NamedTuple):
    """The sort key of requests: time (ns) less the head start, then order of admission. The smallest goes first."""

    t_ns: int
    seq: int


def rank_of(now_ns: int, seq: int, priority: int, ageing_s: float) -> Rank:
    """Return the rank of the `seq`th request, admitted at `now_ns`. Each level of `priority` is worth `ageing_s`."""
    return Rank(now_ns - round(priority * ageing_s * 1e9), seq)
