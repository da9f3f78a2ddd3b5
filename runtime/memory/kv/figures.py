"""Usage figures of a paged pool, of its prefix cache, and of each tenant and request in it.

    asked    |ttttttttttttttt.|tttt............|      slots with a known token, prompt or generated
    held     |<-- a block  -->|<-- a block  -->|      internal fragmentation = 1 - asked / held, all in last blocks

The pool keeps its counters at each call. Asked bytes are computed here from the requests, once per measurement.
A paged pool has no external fragmentation, and so no failures by it: any free block serves any request.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from runtime.core.owner import Owner
from runtime.memory.kv.paged import PagedPool
from runtime.memory.spans.usage import PrefixUsage, RequestUsage, TenantUsage, Usage, p99


class Holding(NamedTuple):
    """The KV holding of one request, as the scheduler knows it."""

    owner: Owner
    blocks: Sequence[int]
    tokens: int
    """Known tokens: prompt and generated."""
    host_bytes: int
    failed: int
    preempted: int
    prefix_hits: int


def kv_usage(pool: PagedPool, tenants: Iterable[TenantUsage], leaks: int, block_bytes: int) -> Usage:
    """Return the usage of `pool`. `leaks` is the number of blocks that are held by requests that have ended."""
    count, accounts = pool.count(), pool.accounts.values()
    free_bytes = count.reclaimable * block_bytes
    allocs = sum(one.allocs for one in accounts)
    return Usage(
        pool=pool.name,
        total_bytes=count.total * block_bytes,
        asked_bytes=sum(one.asked_bytes for one in tenants),
        held_bytes=count.live * block_bytes,
        limbo_bytes=count.limbo * block_bytes,
        free_bytes=free_bytes,
        largest_free_bytes=free_bytes,
        pinned_bytes=None,
        live=count.live,
        allocs=allocs,
        hits=allocs - sum(one.evicting for one in accounts),
        failed=sum(one.failed for one in accounts),
        peak_bytes=pool.peak * block_bytes,
        latency_ns_p99=p99(pool.latencies_ns) if pool.latencies_ns else None,
        age_ns=pool.age_ns,
        rungs=pool.rungs,
        leaks=leaks,
    )


def prefix_usage(pool: PagedPool, block_bytes: int) -> PrefixUsage | None:
    """Return the usage of the prefix cache; None when the pool has none."""
    if not pool.prefix_cache:
        return None
    index, accounts = pool.index, pool.accounts.values()
    return PrefixUsage(
        published_bytes=len(index) * block_bytes,
        cached_bytes=index.evictable * block_bytes,
        peak_bytes=index.peak * block_bytes,
        published=index.published,
        refused=index.refused,
        evicted=index.evicted,
        queries=sum(one.queries for one in accounts),
        hits=sum(one.hits for one in accounts),
    )


def tenant_usages(pool: PagedPool, holdings: Iterable[Holding], block_bytes: int) -> tuple[TenantUsage, ...]:
    """Return one usage for each tenant that has ever asked for blocks, sorted by name."""
    by_tenant: defaultdict[str, list[Holding]] = defaultdict(list)
    for one in holdings:
        by_tenant[one.owner.tenant].append(one)
    return tuple(
        TenantUsage(
            tenant=tenant,
            requests=len(by_tenant[tenant]),
            asked_bytes=_asked_bytes(pool, by_tenant[tenant], block_bytes),
            held_bytes=account.live * block_bytes,
            host_bytes=sum(one.host_bytes for one in by_tenant[tenant]),
            peak_bytes=account.peak * block_bytes,
            allocs=account.allocs,
            hits=account.allocs - account.evicting,
            failed=account.failed,
            prefix_queries=account.queries,
            prefix_hits=account.hits,
        )
        for tenant, account in sorted(pool.accounts.items())
    )


def request_usages(pool: PagedPool, holdings: Iterable[Holding], block_bytes: int) -> tuple[RequestUsage, ...]:
    """Return one usage for each request, in the order of `holdings`."""
    return tuple(
        RequestUsage(
            request=one.owner.request,
            tenant=one.owner.tenant,
            phase=one.owner.phase,
            asked_bytes=_asked_bytes(pool, (one,), block_bytes),
            held_bytes=len(one.blocks) * block_bytes,
            host_bytes=one.host_bytes,
            failed=one.failed,
            preempted=one.preempted,
            prefix_hits=one.prefix_hits,
        )
        for one in holdings
    )


def _asked_bytes(pool: PagedPool, holdings: Sequence[Holding], block_bytes: int) -> int:
    """Return the bytes of slots that hold a known token. A shared block is full and counts once."""
    size = pool.block_tokens
    slots = sum(min(one.tokens, len(one.blocks) * size) for one in holdings)
    if len(holdings) > 1 and pool.has_shared:
        blocks = sum(len(one.blocks) for one in holdings)
        slots -= (blocks - len(set(chain.from_iterable(one.blocks for one in holdings)))) * size
    return slots * block_bytes // size
