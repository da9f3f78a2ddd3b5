"""Blocks are taken in two halves; when the second is refused the first is forgotten.

Models Z14 (sglang#16067): no rollback of resource A when the allocation of resource B fails.
"""

MODULE = "runtime.scheduling.scheduler"


def plant(scheduler):
    ensure_blocks = scheduler.Scheduler._ensure_blocks

    def _ensure_blocks(self, request, tokens, rows):
        need = self._pool.blocks_for(tokens) - len(request.blocks)
        if request.state is not scheduler.RequestState.WAITING or need < 2:
            return ensure_blocks(self, request, tokens, rows)
        try:
            halves = [self._pool.take(request.owner, n) for n in (need - 1, 1)]
        except scheduler.OutOfBlocks:
            self._env.counters.hit("kv.out_of_blocks")
            return False
        for half in halves:
            request.give(*half)
        return True

    scheduler.Scheduler._ensure_blocks = _ensure_blocks
