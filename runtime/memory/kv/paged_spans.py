"""KV blocks as spans, so that one accounting, one stack of adaptors and one table of figures covers all kinds.

The scheduler takes blocks of PagedPool itself, many at a time. This view is for those who think in spans: copies
between KV and swap, a prefix cache, figures and audits. A span is one block; its generation is the block's in the tag
plane, so both agree on what is stale.
"""

from collections.abc import Iterator, Sequence

from runtime.core.env import Env
from runtime.core.errors import OutOfBlocks
from runtime.core.ledger import Limbo
from runtime.core.owner import Owner
from runtime.core.ports import Ticket
from runtime.memory.kv.paged import PagedPool
from runtime.memory.spans.failures import DoubleFree, OutOfMemory, StaleSpan, UnknownSpan
from runtime.memory.spans.placement import Place
from runtime.memory.spans.pool import Move, Returned
from runtime.memory.spans.span import AllocRequest, ResetScope, Span
from runtime.memory.spans.usage import Usage


class PagedSpans:
    """See Pool. The one segment is the device's KV tensor; `block_bytes` is what a block takes of it, all layers."""

    def __init__(self, env: Env, pool: PagedPool, block_bytes: int) -> None:
        self.name = pool.name
        self._env, self._pool, self._block_bytes = env, pool, block_bytes
        self._live: dict[int, tuple[Span, AllocRequest]] = {}
        self._last: dict[int, int] = {}
        self._alignment = 1
        self._allocs = self._asked_bytes = 0
        self._on_return: list[Returned] = []

    def alloc(self, request: AllocRequest) -> Span:
        """See Pool. Errors: ValueError when it asks for more than a block, or for an alignment that blocks don't have:
        blocks are fixed, so that is a mistake of the caller and no lack of memory."""
        alignment = max(request.alignment, self._alignment)
        if request.bytes > self._block_bytes or self._block_bytes % alignment:
            raise ValueError(f"pool {self.name}: asked {request}; its spans are blocks of {self._block_bytes} B")
        try:
            blocks, generations = self._pool.take(Owner(request.owner, request.group), 1)
        except OutOfBlocks as error:
            free = self._pool.count().reclaimable * self._block_bytes
            raise OutOfMemory(str(error), request.bytes, free, free) from error
        block, generation = blocks[0], generations[0]
        span = Span(self.name, 0, block * self._block_bytes, request.bytes, generation)
        self._live[block], self._last[block] = (span, request), generation
        self._allocs += 1
        self._asked_bytes += request.bytes
        return span

    def free(self, span: Span, after: Ticket | None) -> None:
        """See Pool."""
        request = self._request(span, DoubleFree)
        self._end(request.owner, (span,), after)

    def reset(self, scope: ResetScope, after: Ticket | None) -> int:
        """See Pool."""
        by_owner: dict[str, list[Span]] = {}
        for span, request in self._live.values():
            if scope.covers(request):
                by_owner.setdefault(request.owner, []).append(span)
        for owner, spans in by_owner.items():
            self._end(owner, spans, after)
        return sum(span.bytes for spans in by_owner.values() for span in spans)

    def release_free(self) -> int:
        """0: the segment is fixed, since captured graphs and the tag plane hold its addresses."""
        return 0

    def defrag(self, move: Move, barrier: Ticket | None, *, bytes_max: int | None = None, overlap: bool = False) -> int:
        """0: a table reaches blocks in any order, so there is nothing to gain."""
        return 0

    def find(self, span: Span) -> AllocRequest:
        """See Pool."""
        return self._request(span, StaleSpan)

    def live(self) -> Iterator[tuple[Span, AllocRequest]]:
        """See Pool."""
        return iter(list(self._live.values()))

    def usage(self) -> Usage:
        """See Pool. All that is free or cached counts as one piece, for the reason that `defrag` gives."""
        count, size = self._pool.count(), self._block_bytes
        return Usage(
            pool=self.name,
            total_bytes=count.total * size,
            asked_bytes=self._asked_bytes,
            held_bytes=count.live * size,
            limbo_bytes=count.limbo * size,
            free_bytes=count.reclaimable * size,
            largest_free_bytes=count.reclaimable * size,
            pinned_bytes=0,
            live=len(self._live),
            allocs=self._allocs,
            hits=self._allocs,
        )

    @property
    def taken_bytes(self) -> int:
        """See Pool."""
        count = self._pool.count()
        return (count.live + count.limbo) * self._block_bytes

    def set_alignment(self, alignment: int) -> None:
        """See Pool. Errors: ValueError when blocks are not aligned so."""
        if alignment < 1 or alignment & (alignment - 1) or self._block_bytes % alignment:
            raise ValueError(f"pool {self.name}: alignment {alignment}; blocks are {self._block_bytes} B each")
        self._alignment = alignment

    def on_return(self, call: Returned) -> None:
        """See Pool."""
        self._on_return.append(call)

    def check(self) -> None:
        """See Pool."""
        assert self._pool.count().conserved, f"blocks of pool {self.name} don't add up: {self._pool.count()}"

    def _request(self, span: Span, gone: type[StaleSpan]) -> AllocRequest:
        block, rest = divmod(span.offset, self._block_bytes)
        live = self._live.get(block)
        if live is not None and live[0] == span:
            return live[1]
        newest = self._last.get(block, 0) - (live is not None)
        if span.pool == self.name and span.segment == rest == 0 and 0 < span.generation <= newest:
            raise gone(f"{span} of pool {self.name} was freed or reset before")
        raise UnknownSpan(f"pool {self.name} never handed out {span}")

    def _end(self, owner: str, spans: Sequence[Span], after: Ticket | None) -> None:
        blocks = [span.offset // self._block_bytes for span in spans]
        for block, span in zip(blocks, spans, strict=True):
            del self._live[block]
            self._asked_bytes -= span.bytes
        if self._on_return:
            self._tell_first(owner, spans, after)
        self._pool.release(Owner(owner), blocks, after)

    def _tell_first(self, owner: str, spans: Sequence[Span], after: Ticket | None) -> None:
        """An entry of limbo with no items, just before the pool's own: told when done, and before the block is free."""

        def back(items: list[int]) -> None:
            for span in spans:
                for call in self._on_return:
                    call(Place(0, span.offset, self._block_bytes))

        if after is None or after.done:
            back([])
        else:
            self._env.ledger.defer(Limbo(owner, self.name, [], after, self._env.clock.now_ns(), back))
