"""Layer 2: pools, owners, and the prefix cache."""

import pytest

from runtime.core import ledger
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.prefix import PrefixIndex
from runtime.scheduling.preemption import Preemption
from tests.planted.zoo.bug import Every, bug


@bug("Z13", "memory", "the last block of a request is freed by two paths", "pr-no-sharing", "kv.")
def freed_twice(patch: pytest.MonkeyPatch) -> None:
    give_back, now = PagedPool._give_back, Every(20)

    def twice(self, blocks):
        give_back(self, blocks)
        if blocks and now():
            self._free.append(list(blocks)[-1])

    patch.setattr(PagedPool, "_give_back", twice)


@bug("Z16", "memory", "a lock is kept when the last chunk was retracted", "pr-recompute", "held by")
def kept_when_retracted(patch: pytest.MonkeyPatch) -> None:
    now = Every(3)

    def kept(self, request):
        blocks = request.strip()
        self._pool.release(request.owner, blocks[:-1] if now() else blocks, None)
        self._queues.requeue(request)

    patch.setattr(Preemption, "_start_over", kept)


@bug("Z17", "memory", "a page is dropped when a request ends exactly on a page boundary", "pr-no-sharing", "held by")
def dropped_on_the_boundary(patch: pytest.MonkeyPatch) -> None:
    end = Preemption.end

    def dropped(self, request, after):
        if request.computed and request.computed % self._pool.block_tokens == 0 and request.swapped is None:
            request.blocks.pop()
        end(self, request, after)

    patch.setattr(Preemption, "end", dropped)


@bug("Z28", "memory", "a staging buffer is released in the branch of success only", "pr-swap-storm", "io_")
def staging_kept_on_failure(patch: pytest.MonkeyPatch) -> None:
    def discard(self, request, why):
        self._env.ledger.note(request.id, self._env.clock.now_ns(), why)
        request.strip()
        self._swap._held.pop(request.swapped.span)
        request.swapped = None

    patch.setattr(Preemption, "_recompute_swapped", discard)


@bug("Z31", "memory", "a few evicted hashes stay in the index", "pr-shared-prefix", "published")
def gap_blocks(patch: pytest.MonkeyPatch) -> None:
    evict, now = PrefixIndex.evict, Every(5)

    def leaves_some(self, n):
        oldest = next(iter(self._evictable))
        key = self._keys[oldest]
        blocks = evict(self, n)
        if now():
            self._blocks[key], self._keys[oldest] = oldest, key
        return blocks

    patch.setattr(PrefixIndex, "evict", leaves_some)


@bug("Z32", "memory", "a sequence is removed while another still references its block", "pr-shared-prefix", "kv.")
def removed_under_a_child(patch: pytest.MonkeyPatch) -> None:
    drop_owner, now = ledger._drop_owner, Every(10)

    def alone(extra, item):
        if item in extra and now():
            del extra[item]
            return False
        return drop_owner(extra, item)

    patch.setattr(ledger, "_drop_owner", alone)


@bug("Z154", "memory", "a block is a hit when only its first tokens match", "pr-shared-prefix", "kv.")
def partial_hits(patch: pytest.MonkeyPatch) -> None:
    find = PrefixIndex.find

    def by_first_tokens(self, keys):
        found = find(self, keys)
        if len(found) < len(keys):
            start = keys[len(found)][:-8]
            near = [block for key, block in self._blocks.items() if key[: len(start)] == start and block not in found]
            found += near[:1]
        return found

    patch.setattr(PrefixIndex, "find", by_first_tokens)


@bug("Z101", "memory", "blocks held for safety are never released when the last word is lost", "pr-no-sharing", "held")
def lost_last_word(patch: pytest.MonkeyPatch) -> None:
    back, now = PagedPool._return_from_limbo, Every(30)
    patch.setattr(PagedPool, "_return_from_limbo", lambda self, blocks: None if now() else back(self, blocks))
