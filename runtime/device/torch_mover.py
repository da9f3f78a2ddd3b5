"""Copies of one request's KV between its blocks and the host with torch: K and V of each layer, and the tags.

    [keys of layer 0, all its blocks | ... | values of the last layer | tags]      layout of its span on the host

One function copies tags, K and V, so that the tags reveal a copy that writes to the wrong place.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from runtime.core.work import Copy, Way
from runtime.device.torch_segments import TorchSegments
from runtime.memory.kv.tags import TagPlane
from runtime.memory.spans.span import Span


class TorchMover:
    """Implements `runtime.device.ports.Mover` over `pool` of `segments`. `stores` are the tensors of K and V, each
    [blocks or more, ...]."""

    def __init__(self, segments: TorchSegments, pool: str, stores: Sequence[Tensor], plane: TagPlane) -> None:
        self._segments = segments
        self._pool = pool
        self._plane = plane
        tags = torch.from_numpy(plane.rows.view("int64"))  # shares memory with the plane
        self._stores: tuple[Tensor, ...] = (*stores, tags)
        self.block_bytes = sum(_block_bytes(store) for store in self._stores)

    @torch.inference_mode()
    def move(self, copy: Copy) -> None:
        """See Mover."""
        count, offset = len(copy.blocks), copy.offset
        at = torch.tensor(copy.blocks, dtype=torch.int64)
        for store in self._stores:
            size_bytes = count * _block_bytes(store)
            span = Span(self._pool, copy.segment, offset, size_bytes, 0)
            there = self._segments.view(span, store.dtype, (count, *store.shape[1:]))
            if copy.way is Way.OUT:
                move_out(store, at, there)
            else:
                move_in(store, at, there)
            offset += size_bytes
        if copy.way is Way.IN:
            self._plane.resum(copy.blocks)


def move_out(store: Tensor, at: Tensor, there: Tensor) -> None:
    """Copy rows `at` of `store` to `there`, [len(at), ...]."""
    torch.index_select(store, 0, at, out=there)


def move_in(store: Tensor, at: Tensor, there: Tensor) -> None:
    """Copy `there`, [len(at), ...], to rows `at` of `store`. (`store[at].copy_(there)` would write to a temporary.)"""
    store.index_copy_(0, at, there)


def _block_bytes(store: Tensor) -> int:
    return math.prod(store.shape[1:]) * store.element_size()
