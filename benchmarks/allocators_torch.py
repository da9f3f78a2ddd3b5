"""torch's caching allocator as a model, since the real one needs a GPU.

Its published rules: requests are rounded to 512 B; up to 1 MiB from 2 MiB segments, below 10 MiB from 20 MiB segments,
else from one of its own rounded to 2 MiB; the smallest block that fits; split when at least 512 B (small) or more than
1 MiB (large) is left; neighbours merge inside their segment; when the device is full, all segments that hold nothing
are given back, and the segment is asked for again. Not modelled: streams, expandable segments, max_split_size.
"""

from benchmarks.allocators_heaps import MIB, Heap
from runtime.memory.spans.span import PoolKind


class TorchModel(Heap):
    def __init__(self, room_bytes: int) -> None:
        self._left_bytes = room_bytes
        self._segments: dict[int, tuple[int, bool]] = {}  # -> (bytes, small)
        self._blocks: dict[int, dict[int, list[int]]] = {}  # segment -> offset -> [bytes, free]
        self._at: dict[int, tuple[int, int]] = {}
        self._next = 0

    def alloc(self, number: int, size_bytes: int, kind: PoolKind) -> bool:
        size_bytes = -(-size_bytes // 512) * 512
        small = size_bytes <= MIB
        block = self._best(size_bytes, small) or self._grow(size_bytes, small)
        if block is None:
            self._give_back()
            block = self._grow(size_bytes, small)
        if block is None:
            return False
        segment, offset = block
        whole = self._blocks[segment][offset][0]
        if whole - size_bytes > (511 if small else MIB):
            self._blocks[segment][offset + size_bytes] = [whole - size_bytes, 1]
            whole = size_bytes
        self._blocks[segment][offset] = [whole, 0]
        self._at[number] = block
        return True

    def free(self, number: int) -> None:
        segment, offset = self._at.pop(number)
        blocks = self._blocks[segment]
        blocks[offset][1] = 1
        offsets = sorted(blocks)
        for first, second in zip(offsets[-2::-1], offsets[:0:-1], strict=True):
            if blocks[first][1] and blocks[second][1]:
                blocks[first][0] += blocks.pop(second)[0]

    def pieces(self) -> tuple[int, int, int]:
        free = [size for blocks in self._blocks.values() for size, is_free in blocks.values() if is_free]
        largest = max(self._left_bytes, *free, 0)
        given_back = self._left_bytes + sum(self._segments[one][0] for one in self._empty())
        return self._left_bytes + sum(free), largest, max(largest, given_back)

    def _best(self, size_bytes: int, small: bool) -> tuple[int, int] | None:
        fits = [
            (size, segment, offset)
            for segment, blocks in self._blocks.items()
            if self._segments[segment][1] == small
            for offset, (size, is_free) in blocks.items()
            if is_free and size >= size_bytes
        ]
        return min(fits)[1:] if fits else None

    def _grow(self, size_bytes: int, small: bool) -> tuple[int, int] | None:
        own_bytes = -(-size_bytes // (2 * MIB)) * 2 * MIB
        segment_bytes = 2 * MIB if small else 20 * MIB if size_bytes < 10 * MIB else own_bytes
        if segment_bytes > self._left_bytes:
            return None
        self._left_bytes -= segment_bytes
        self._next += 1
        self.calls += 1
        self._segments[self._next] = segment_bytes, small
        self._blocks[self._next] = {0: [segment_bytes, 1]}
        return self._next, 0

    def _give_back(self) -> None:
        for segment in self._empty():
            self._left_bytes += self._segments.pop(segment)[0]
            self.calls += 1
            del self._blocks[segment]

    def _empty(self) -> list[int]:
        return [one for one, blocks in self._blocks.items() if blocks.get(0) == [self._segments[one][0], 1]]
