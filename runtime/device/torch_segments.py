"""Segments of memory pools as torch tensors. The spans of a pool are views of its segments.

reserve ---> one uint8 tensor, its base at a multiple of 4096
view    ---> Span -> tensor of a dtype and shape on its bytes      checked, since `out=` with a wrong shape only warns
move    ---> the copy of a defragmentation                         like memmove: source and target may overlap
poison  ---> overwrites freed bytes                            a later read gets a visibly wrong value
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

SENTINEL = 0x5C
"""The byte that overwrites freed bytes. Repeated, it is a large and finite number as float16 (279), bfloat16 and
float32 (2.5e17), float64 and any integer. NaN would spoil good results: padding rows are masked by a product with 0,
and 0 * NaN is not 0."""

Make = Callable[[tuple[int, ...], torch.dtype], Tensor]
"""Makes a tensor that lives as long as the runtime."""


class TorchSegments:
    """Implements `runtime.memory.spans.upstream.Upstream`. It is thread-safe.

    `room_bytes` limits the bytes of all segments together; with None, only torch's allocator limits them.
    """

    def __init__(self, room_bytes: int | None = None, device: str = "cpu") -> None:
        self.room_bytes = room_bytes
        self.taken_bytes = 0
        self.reserved = 0
        """Segments made since the start. Steps in a steady state make none."""
        self._device = torch.device(device)
        self._tensors: dict[tuple[str, int], Tensor] = {}
        self._lock = threading.Lock()

    def reserve(self, pool: str, segment: int, size_bytes: int) -> bool:
        """See Upstream. All pages are mapped at once: a soak test would take pages mapped later for a leak."""
        with self._lock:
            if self.room_bytes is not None and self.taken_bytes + size_bytes > self.room_bytes:
                return False
            try:
                with _disable_current_modes():  # AllocationTracker must not count segments of pools
                    raw = torch.empty(size_bytes + ALIGNMENT_MAX, dtype=torch.uint8, device=self._device).zero_()
            except RuntimeError:  # torch's error for exhausted memory, on every device
                return False
            skipped = -raw.data_ptr() % ALIGNMENT_MAX
            self._tensors[pool, segment] = raw[skipped : skipped + size_bytes]
            self.taken_bytes += size_bytes
            self.reserved += 1
            return True

    def give_back(self, pool: str, segment: int, size_bytes: int) -> None:
        """See Upstream. Remaining views keep the tensor alive, but its bytes count as free."""
        with self._lock:
            del self._tensors[pool, segment]
            self.taken_bytes -= size_bytes

    def bytes_of(self, span: Span) -> Tensor:
        """Return the bytes of `span`, uint8 [span.bytes]. Raises KeyError when its segment has been given back."""
        return self._tensors[span.pool, span.segment][span.offset : span.offset + span.bytes]

    def view(self, span: Span, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        """Return a contiguous tensor on the first bytes of `span`; its content is not initialised.

        Raises ValueError when the tensor is larger than the span.
        """
        size_bytes = math.prod(shape) * dtype.itemsize
        if size_bytes > span.bytes:
            raise ValueError(f"{dtype} {list(shape)} takes {size_bytes} B, and {span} has {span.bytes}; ask for more")
        return self.bytes_of(span)[:size_bytes].view(dtype).view(shape)

    def move(self, old: Span, new: Span, size_bytes: int) -> None:
        """Copy `size_bytes` from `old` to `new` before returning. The spans may overlap."""
        source, target = self.bytes_of(old)[:size_bytes], self.bytes_of(new)[:size_bytes]
        overlap = (old.pool, old.segment) == (new.pool, new.segment) and abs(old.offset - new.offset) < size_bytes
        target.copy_(source.clone() if overlap else source)

    def poison(self, pool: str) -> Callable[[Place], None]:
        """Return a function that fills a place of `pool` with SENTINEL; see runtime/memory/assembly.py."""

        def fill(place: Place) -> None:
            self._tensors[pool, place.segment][place.offset : place.end].fill_(SENTINEL)

        return fill

    def owns(self, address: int) -> bool:
        """Return whether `address` lies in a segment, and so belongs to a pool."""
        return any(0 <= address - one.data_ptr() < len(one) for one in list(self._tensors.values()))


def fresh(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return a zeroed tensor from torch's own allocator, with all pages mapped."""
    return torch.empty(shape, dtype=dtype).zero_()


def placed(segments: TorchSegments, pool: Pool, kind: PoolKind) -> Make:
    """Return a function that makes tensors in spans of `pool`; they are never freed. It raises OutOfMemory."""

    def make(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        size_bytes = math.prod(shape) * dtype.itemsize
        span = pool.alloc(AllocRequest(size_bytes, pool=kind, lifetime=Lifetime.GLOBAL))
        return segments.view(span, dtype, shape)

    return make


def carved(segments: TorchSegments, pool: str, size_bytes: int) -> Make:
    """Return a function that makes adjacent tensors in one segment of `pool`. They hold KV, whose accounting is in
    blocks, not in spans.

    Raises ValueError when there is no room for the segment; the function raises it when the segment is full.
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
