"""A full block of a running request is freed as a duplicate while the request still points at it.

Models M3 (mini-sglang PR #142): the pages of a prompt that are found again are freed, the table is not repaired. The
books stay in order (the block has one owner at any time), so only what the block holds can tell.
"""

MODULE = "runtime.scheduling.scheduler"
EVERY = 25
"""One in so many of those that will live long enough to need another block, so that the baseline stays good."""


def plant(scheduler, every=EVERY):
    ensure_blocks, remove = scheduler.Scheduler._ensure_blocks, scheduler.Scheduler.remove
    prompts, freed = [0], {}

    def _ensure_blocks(self, request, tokens, rows):
        fits = ensure_blocks(self, request, tokens, rows)
        if fits and request.generated == 1 and request.submit.max_tokens >= self._pool.block_tokens:
            prompts[0] += 1
            if prompts[0] % every == 0:
                first = freed[request.id] = request.blocks[0]
                self._env.ledger.release(self._pool.name, request.id, [first])
                self._pool._free.append(first)
        return fits

    def _remove(self, request, after):
        if (first := freed.pop(request.id, None)) is not None:
            request.blocks.remove(first)  # it owns the rest, and only that is given back
        remove(self, request, after)

    scheduler.Scheduler._ensure_blocks, scheduler.Scheduler.remove = _ensure_blocks, _remove
