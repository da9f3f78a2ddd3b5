"""The memory of one launch, from the device's pools: activations from the arena, an operator's scratch from the ring.

    begin(step, tokens, sampled) --> four spans of the arena       OutOfMemory: this launch fails
        scratch(shapes) -----------> one span of the ring          returned when its operator is done
    end() -------------------------> the arena is reset for the session "step-N"

Views are kept by shape and made again only when their spans lie elsewhere: a steady decode makes none. The thread that
runs launches calls all of this; `usages` and `held` may be called from any thread.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from runtime.core.env import Env
from runtime.device.torch_segments import TorchSegments
from runtime.memory.assembly import PoolSizes, device_pools
from runtime.memory.spans.placement import aligned
from runtime.memory.spans.pool import Pool, Pools
from runtime.memory.spans.span import AllocRequest, Lifetime, PoolKind, ResetScope, Span
from runtime.memory.spans.usage import Usage
from runtime.models.buffers import Buffers, padded_bytes, parts_of, sizes_of, step_bytes
from runtime.models.config import DecoderConfig

SCRATCH_BYTES = 8 << 20
"""Scratch bytes of one operator. Attention over more rows than fit goes in parts. The ring holds two of them."""
_KEPT_MAX = 256
KINDS = (PoolKind.WEIGHT, PoolKind.ACTIVATION, PoolKind.WORKSPACE)

Shape = tuple[int, ...]
Built = TypeVar("Built")


def _as_they_are(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tensors


class Workspace:
    """The buffers and scratch of one launch at a time, on the pools of one device."""

    def __init__(self, config: DecoderConfig, segments: TorchSegments, pools: Pools, scratch_bytes: int) -> None:
        self.pools = pools
        self.segments = segments
        self.scratch_bytes = scratch_bytes
        """Most bytes that one operator may ask for. The ring holds twice as many: an operator may call another one."""
        self._config = config
        self._parts = parts_of(config)
        self._activation = pools[PoolKind.ACTIVATION]
        self._workspace = pools[PoolKind.WORKSPACE]
        self._lock = threading.Lock()
        self._session = ""
        self._buffers: dict[tuple[int, int], tuple[list[tuple[int, int]], Buffers]] = {}
        self._scratches: dict[tuple[Shape, ...], Scratch[Any]] = {}

    def begin(self, step: int, tokens: int, sampled: int) -> Buffers:
        """Buffers of one launch. Raises OutOfMemory; the caller calls `end` in that case too."""
        self._session = f"step-{step}"
        with self._lock:
            spans = [
                self._activation.alloc(
                    AllocRequest(size, pool=PoolKind.ACTIVATION, lifetime=Lifetime.GRAPH, session=self._session)
                )
                for size in sizes_of(self._parts, tokens, sampled)
            ]
        where = [(span.segment, span.offset) for span in spans]
        kept = self._buffers.get((tokens, sampled))
        if kept is None or kept[0] != where:
            if len(self._buffers) >= _KEPT_MAX:
                self._buffers.clear()
            kept = where, Buffers(self._config, self.segments, spans, tokens, sampled)
            self._buffers[tokens, sampled] = kept
        return kept[1]

    def end(self) -> None:
        """Frees the activations of the launch. Its kernels must have ended."""
        with self._lock:
            self._activation.reset(ResetScope(Lifetime.GRAPH, self._session), None)
            self._session = ""

    def scratch(self, *shapes: Shape) -> "Scratch[tuple[Tensor, ...]]":
        """Scratch for `with space.scratch(a, b) as (first, second)`: float32 tensors of these shapes, with undefined
        content."""
        return self.scratch_for(shapes, _as_they_are)

    def scratch_for(self, shapes: tuple[Shape, ...], build: Callable[[tuple[Tensor, ...]], Built]) -> "Scratch[Built]":
        """Scratch whose `with` gives the result of `build(tensors)`, built again only when the tensors have moved."""
        scratch = self._scratches.get(shapes)
        if scratch is None:
            if len(self._scratches) >= _KEPT_MAX:
                self._scratches.clear()
            scratch = Scratch(self._workspace, self.segments, self._lock, shapes, build)
            self._scratches[shapes] = scratch
        return scratch

    def usages(self) -> list[Usage]:
        """Figures of the device's pools, from any thread. Activations that do not belong to the current launch count as
        leaks: their reset was lost."""
        with self._lock:
            weight, activation, workspace = (self.pools[kind].usage() for kind in KINDS)
            leaks = sum(request.session != self._session for _, request in self._activation.live())
            return [weight, replace(activation, leaks=leaks), workspace]

    def held(self) -> list[tuple[Span, AllocRequest]]:
        """All live spans of the device's pools, from any thread."""
        with self._lock:
            return [held for kind in KINDS for held in self.pools[kind].live()]


class Scratch(Generic[Built]):
    """One operator's tensors in one span of the ring, allocated at the start of a `with` and freed at its end."""

    def __init__(
        self,
        pool: Pool,
        segments: TorchSegments,
        lock: threading.Lock,
        shapes: tuple[Shape, ...],
        build: Callable[[tuple[Tensor, ...]], Built],
    ) -> None:
        self.bytes = sum(padded_bytes(*shape) for shape in shapes)
        self._pool, self._segments, self._lock, self._shapes, self._build = pool, segments, lock, shapes, build
        self._request = AllocRequest(self.bytes, pool=PoolKind.WORKSPACE)
        self._span: Span | None = None
        self._where: tuple[int, int] | None = None

    def __enter__(self) -> Built:
        """Allocates the span. Raises OutOfMemory."""
        assert self._span is None, f"scratch of {self._shapes} is taken twice at once"
        with self._lock:
            self._span = span = self._pool.alloc(self._request)
        if self._where != (span.segment, span.offset):
            self._where = span.segment, span.offset
            self._built = self._build(tuple(self._views(span)))
        return self._built

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        span, self._span = self._span, None
        assert span is not None, "scratch is given back that was not taken"
        with self._lock:
            self._pool.free(span, None)

    def _views(self, span: Span) -> Iterator[Tensor]:
        offset = span.offset
        for shape in self._shapes:
            yield self._segments.view(span._replace(offset=offset, bytes=padded_bytes(*shape)), torch.float32, shape)
            offset += padded_bytes(*shape)
        assert offset <= span.offset + span.bytes, f"views of {self._shapes} reach behind {span}"


def scratch_bytes(config: DecoderConfig, context: int) -> int:
    """Scratch bytes of one operator: SCRATCH_BYTES, or more if attention of one row over `context` tokens needs it."""
    row = config.kv_heads * config.head_dim * 2 + config.heads * 2
    return max(SCRATCH_BYTES, aligned(4 * row * context + 65536, 4096))


def alone(config: DecoderConfig, tokens: int = 512, sampled: int = 32) -> Workspace:
    """A workspace with pools of its own and no faults, for a model that runs outside of a runtime."""
    segments, scratch = TorchSegments(), scratch_bytes(config, config.context_max)
    env = Env.quiet()
    sizes = replace(PoolSizes(), step=step_bytes(config, tokens, sampled), workspace=2 * scratch)
    return Workspace(config, segments, device_pools(env, segments, sizes), scratch)
