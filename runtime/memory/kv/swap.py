"""KV of preempted requests on the host, in spans of the pool "io". The device copies it out and in.

    blocks --copy out--> span on the host            the blocks are free once this copy is done (limbo)
    blocks <--copy in--- span on the host            the span is free once this copy is done

Tags are in the same copies, so the next launch detects KV that a copy lost or mixed up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runtime.core.env import Env
from runtime.core.errors import DeviceLost, LaunchError, SwapRefused
from runtime.core.owner import Owner
from runtime.core.ports import Ticket
from runtime.core.work import Copy, Way
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.points import SWAP_IN, SWAP_OUT
from runtime.memory.spans.failures import DefragFailed, OutOfMemory
from runtime.memory.spans.pool import Pool
from runtime.memory.spans.span import AllocRequest, Lifetime, PoolKind, Span


@dataclass(slots=True)
class Swapped:
    """The KV of one request on the host. It is complete once `ticket` is done without an error."""

    span: Span
    """A defragmentation replaces it."""
    blocks: int
    ticket: Ticket


class SwapSpace:
    """Swaps blocks of `kv` to the pool `host` and back. A block takes `block_bytes` bytes there: K and V of all layers,
    and tags. `copy` queues a copy on the device."""

    def __init__(self, env: Env, kv: PagedPool, host: Pool, block_bytes: int, copy: Callable[[Copy], Ticket]) -> None:
        self._env = env
        self._kv = kv
        self._host = host
        self._block_bytes = block_bytes
        self._copy = copy
        self._held: dict[Span, Swapped] = {}
        self._last: Ticket | None = None

    @property
    def count(self) -> int:
        """Number of requests with KV on the host."""
        return len(self._held)

    def swap_out(self, owner: Owner, blocks: Sequence[int]) -> Swapped:
        """Copy the KV in `blocks` to the host and release them. Raises SwapRefused, and then nothing has changed."""
        faults = self._env.faults
        if faults.armed:
            owner.fire(SWAP_OUT, faults, pool=self._host.name)
        wanted = AllocRequest(
            len(blocks) * self._block_bytes,
            pool=PoolKind.IO,
            lifetime=Lifetime.SESSION,
            session=owner.request,
            group=owner.tenant,
        )
        try:
            span = self._host.alloc(wanted)
        except OutOfMemory as error:
            raise SwapRefused(str(error)) from error
        try:
            ticket = self._copy(Copy(owner.request, Way.OUT, tuple(blocks), span.segment, span.offset))
        except (LaunchError, DeviceLost) as error:
            self._host.free(span, None)
            raise SwapRefused(str(error)) from error
        self._last = ticket
        self._kv.release(owner, blocks, ticket)
        swapped = self._held[span] = Swapped(span, len(blocks), ticket)
        return swapped

    def swap_in(self, owner: Owner, swapped: Swapped, blocks: Sequence[int]) -> Ticket:
        """Copy the KV into `blocks`, which are newly taken. The span stays until `free`. Raises SwapRefused, and then
        nothing is copied."""
        assert swapped.ticket.done, f"the KV of {owner.request} is copied back before its copy to the host is done"
        faults = self._env.faults
        if faults.armed:
            owner.fire(SWAP_IN, faults, pool=self._host.name)
        try:
            ticket = self._copy(Copy(owner.request, Way.IN, tuple(blocks), swapped.span.segment, swapped.span.offset))
        except (LaunchError, DeviceLost) as error:
            raise SwapRefused(str(error)) from error
        self._last = ticket
        return ticket

    def free(self, swapped: Swapped, after: Ticket | None) -> None:
        """Free the span once `after` is done. (A reset of the session would also end a span whose own free was lost,
        and hide that leak.)"""
        del self._held[swapped.span]
        self._host.free(swapped.span, after)

    def replace_handle(self, old: Span, new: Span) -> None:
        """Replace the handle `old` after a defragmentation. A span whose free was lost is not known here."""
        swapped = self._held.pop(old, None)
        if swapped is not None:
            swapped.span = new
            self._held[new] = swapped

    def barrier(self) -> Ticket | None:
        """Return None when spans may be moved. Raises DefragFailed while a copy is in flight, since it uses the
        present places."""
        if self._last is not None and not self._last.done:
            raise DefragFailed(f"{self._last.work} is in flight")
        return None
