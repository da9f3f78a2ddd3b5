"""The prefix tree keeps a view of a request's page-table row instead of a copy of it.

The real bug: mini-sglang 94fe255 (a missing `.clone()`). A row of the page table is used again, so a node that was
right when it was made names the blocks of whoever has the row now. Here as well: what the index finds is read from the
row of the publisher, one of `ROWS` that requests take in turn.
"""

import pytest

from runtime.scheduling.scheduler import Scheduler

SCENARIO = "pr-shared-prefix"
JUDGE = "invariants"
ROWS = 8


def plant(patch: pytest.MonkeyPatch) -> None:
    publish, cached = Scheduler.publish, Scheduler._cached
    rows: list[list[int]] = [[] for _ in range(ROWS)]
    nodes: dict[bytes, tuple[list[int], int]] = {}

    def _publish(self, request):
        row = rows[request.seq % ROWS]
        row[:] = request.blocks
        for at, key in enumerate(request.keys_of(request.computed // self._pool.block_tokens)):
            nodes.setdefault(key, (row, at))
        publish(self, request)

    def _cached(self, request):
        found = cached(self, request)
        nodes_found = (nodes[key] for key in request.keys_of(len(found)))
        viewed = [row[at] if at < len(row) else block for (row, at), block in zip(nodes_found, found, strict=True)]
        # Only what can be held at all, each block once: the books stay in order, and what is in them is wrong.
        known = not any(self._pool.index.none_published([block]) for block in viewed)
        return viewed if known and len(set(viewed)) == len(viewed) else found

    patch.setattr(Scheduler, "publish", _publish)
    patch.setattr(Scheduler, "_cached", _cached)
