"""KV of preempted requests on the host: bytes out of a pool of size classes, there and back by the device's copies.

    blocks --copy out--> span on the host            blocks go back once the copy is done (limbo)
    blocks <--copy in--- span on the host            the span goes back once that copy is done

Tags travel in the same copies, so KV that was lost or mixed up on the way is known at the next launch.
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
    """Where the KV of one request lies. Readable once `ticket` has landed without an error."""

    span: Span
    """Another one after a defragmentation."""
    blocks: int
    ticket: Ticket


class SwapSpace:
    """`host` holds `block_bytes` for each block: K and V of all layers, and tags. Copies go through `copy`."""

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
        """Owners with KV here."""
        return len(self._held)

    def out(self, owner: Owner, blocks: Sequence[int]) -> Swapped:
        """Send the KV in `blocks` to the host and give them up. Raises SwapRefused, and then nothing has changed."""
        faults = self._env.faults
        if faults.armed:
            owner.fire(SWAP_OUT, faults, pool=self._host.name)
        asked = AllocRequest(
            len(blocks) * self._block_bytes,
            pool=PoolKind.IO,
            lifetime=Lifetime.SESSION,
            session=owner.request,
            group=owner.tenant,
        )
        try:
            span = self._host.alloc(asked)
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

    def back(self, owner: Owner, swapped: Swapped, blocks: Sequence[int]) -> Ticket:
        """Bring it into fresh `blocks`. The span stays until `end`. Raises SwapRefused, and then nothing will come."""
        assert swapped.ticket.done, f"the KV of {owner.request} is asked back before it has come to the host"
        faults = self._env.faults
        if faults.armed:
            owner.fire(SWAP_IN, faults, pool=self._host.name)
        try:
            ticket = self._copy(Copy(owner.request, Way.IN, tuple(blocks), swapped.span.segment, swapped.span.offset))
        except (LaunchError, DeviceLost) as error:
            raise SwapRefused(str(error)) from error
        self._last = ticket
        return ticket

    def end(self, swapped: Swapped, after: Ticket | None) -> None:
        """What lies there is given up, once `after` is done. (No reset of the session: that would also end a span whose
        own release was lost, and nobody would ever see the leak.)"""
        del self._held[swapped.span]
        self._host.free(swapped.span, after)

    def renew(self, old: Span, new: Span) -> None:
        """A defragmentation has moved what lay at `old`. A span whose release was lost is held by nobody here."""
        swapped = self._held.pop(old, None)
        if swapped is not None:
            swapped.span = new
            self._held[new] = swapped

    def barrier(self) -> Ticket | None:
        """None: spans may be moved. Raises DefragFailed while a copy is on its way, since it knows the old places."""
        if self._last is not None and not self._last.done:
            raise DefragFailed(f"{self._last.work} is in flight")
        return None
