"""Segments as torch tensors: what a pool's spans are made of on this device.

reserve ---> one uint8 tensor, its base at a multiple of 4096
view    ---> Span -> tensor of a dtype and shape on its bytes      checked here: `out=` with a wrong shape only warns
move    ---> the copy of a defragmentation                         like memmove: a span may slide over its own bytes
fill    ---> what the adaptor Poison does to a place that came back
"""

import math
import threading
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from runtime.memory.spans.placement import Place, aligned
from runtime.memory.spans.pool import Pool
from runtime.memory.spans.span import ALIGNMENT_MAX, AllocRequest, Lifetime, PoolKind, Span

Filler = Callable[[Place, int], None]
Make = Callable[[tuple[int, ...], torch.dtype], Tensor]
"""Makes a tensor that lives as long as the runtime."""


class TorchSegments:
    """Implements `runtime.memory.spans.upstream.Upstream`; pools of several threads may share one.

    `room_bytes` bounds all segments together; None leaves it to torch to say no.
    """

    def __init__(self, room_bytes: int | None = None, device: str = "cpu") -> None:
        self.room_bytes = room_bytes
        self.taken_bytes = 0
        self.reserved = 0
        """Segments made since the start: a steady step makes none."""
        self._device = torch.device(device)
        self._tensors: dict[tuple[str, int], Tensor] = {}
        self._lock = threading.Lock()

    def reserve(self, pool: str, segment: int, size_bytes: int) -> bool:
        """See Upstream. Its pages are mapped in at once: one by one, a soak would take them for a leak."""
        with self._lock:
            if self.room_bytes is not None and self.taken_bytes + size_bytes > self.room_bytes:
                return False
            try:
                with _disable_current_modes():  # whoever counts unowned bytes must not see a pool's own
                    raw = torch.empty(size_bytes + ALIGNMENT_MAX, dtype=torch.uint8, device=self._device).zero_()
            except RuntimeError:  # torch's way to say that the allocator has no more, on every device
                return False
            skipped = -raw.data_ptr() % ALIGNMENT_MAX
            self._tensors[pool, segment] = raw[skipped : skipped + size_bytes]
            self.taken_bytes += size_bytes
            self.reserved += 1
            return True

    def give_back(self, pool: str, segment: int, size_bytes: int) -> None:
        """See Upstream. Views that somebody kept hold the tensor alive; the room counts as free all the same."""
        with self._lock:
            del self._tensors[pool, segment]
            self.taken_bytes -= size_bytes

    def bytes_of(self, span: Span) -> Tensor:
        """Its bytes, uint8. Errors: KeyError when its segment has been given back."""
        return self._tensors[span.pool, span.segment][span.offset : span.offset + span.bytes]

    def view(self, span: Span, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        """A dense tensor on the first bytes of `span`, with whatever they hold.

        Errors: ValueError when it would reach past the span, into the bytes of a neighbour.
        """
        size_bytes = math.prod(shape) * dtype.itemsize
        if size_bytes > span.bytes:
            raise ValueError(f"{dtype} {list(shape)} takes {size_bytes} B, and {span} has {span.bytes}; ask for more")
        return self.bytes_of(span)[:size_bytes].view(dtype).view(shape)

    def move(self, old: Span, new: Span, size_bytes: int) -> None:
        """Copy `size_bytes` from `old` to `new`; done when it returns. They may share bytes."""
        source, target = self.bytes_of(old)[:size_bytes], self.bytes_of(new)[:size_bytes]
        overlap = (old.pool, old.segment) == (new.pool, new.segment) and abs(old.offset - new.offset) < size_bytes
        target.copy_(source.clone() if overlap else source)

    def filler(self, pool: str) -> Filler:
        """For the adaptor Poison on `pool`."""

        def fill(place: Place, value: int) -> None:
            self._tensors[pool, place.segment][place.offset : place.end].fill_(value)

        return fill

    def owns(self, address: int) -> bool:
        """Whether `address` lies in some segment, so that the bytes there are a pool's."""
        return any(0 <= address - one.data_ptr() < len(one) for one in list(self._tensors.values()))


def fresh(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A tensor of torch's own, its pages mapped in."""
    return torch.empty(shape, dtype=dtype).zero_()


def placed(segments: TorchSegments, pool: Pool, kind: PoolKind) -> Make:
    """Tensors in spans of `pool`, for good. Errors of what it gives: OutOfMemory."""

    def make(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        size_bytes = math.prod(shape) * dtype.itemsize
        span = pool.alloc(AllocRequest(size_bytes, pool=kind, lifetime=Lifetime.GLOBAL))
        return segments.view(span, dtype, shape)

    return make


def carved(segments: TorchSegments, pool: str, size_bytes: int) -> Make:
    """Tensors side by side in one segment of `pool`, for bytes that another accounting than spans hands out (KV).

    Errors: ValueError when there is no room for the segment; of what it gives: ValueError for a tensor too many.
    """
    if not segments.reserve(pool, 0, size_bytes):
        raise ValueError(f"no room for {size_bytes} B of {pool}; give fewer blocks, or the device more memory")
    used = 0

    def make(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        nonlocal used
        span = Span(pool, 0, used, min(math.prod(shape) * dtype.itemsize, size_bytes - used), 0)
        used = aligned(used + span.bytes, ALIGNMENT_MAX)
        return segments.view(span, dtype, shape)

    return make
