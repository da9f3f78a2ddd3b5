"""Size classes: runs of sixteen blocks of one size, taken from the extents and given back to them.

    class 96    run 7  |x| |x|x| | |x|...   16 blocks; the run is one place of the extents and lists its free blocks
                run 9  |x|x|x|x|x|x|x|...   full: not among the open runs of its class

Taking a block is a pop, putting it back a push. A run goes back to the extents as a whole when its last block is put
back: it merges with its neighbours, and its segment can be dropped. One empty run per class is kept as a spare;
otherwise a single block that comes and goes would cut a new run each time.

Sizes of classes grow by 1.5 and 1.33 in turn, so at most a third of a block is lost to rounding. Spans that are larger
than the largest class, or aligned to more than a run, are taken from the extents directly.
"""

from bisect import bisect_left

from runtime.memory.spans.placement import Place, Placement

CLASSES = (*(size for power in range(6, 17) for size in (1 << power, 3 << power - 1)), 131072)
"""64, 96, 128, 192 ... 65536, 98304, 131072 bytes."""
BLOCKS_PER_RUN = 16
RUN_BYTES_MAX = 256 * 1024
"""A run of sixteen blocks of the largest class would pin 2 MiB for a single block in use."""
_RUN_ALIGNMENT_MAX = 4096


class _Run:
    """Adjacent blocks of one class."""

    __slots__ = ("blocks", "free", "place", "size_bytes")

    def __init__(self, place: Place, size_bytes: int, blocks: int) -> None:
        self.place, self.size_bytes, self.blocks = place, size_bytes, blocks
        self.free = [place.offset + n * size_bytes for n in range(self.blocks - 1, -1, -1)]


class Classes(Placement):
    """Size classes on top of `below`, the extents. Runs are numbered from 1; see `Place.run`."""

    def __init__(self, below: Placement) -> None:
        super().__init__(below.segments)
        self.longest = below.longest
        self._below = below
        self._next_run = 1
        self._runs: dict[int, _Run] = {}
        self._open: dict[int, dict[int, _Run]] = {size: {} for size in CLASSES}
        """Size of a class -> its runs with a free block."""
        self._spare: dict[int, int] = {}
        """Size of a class -> its empty run."""
        self._free_bytes = 0
        self._sizes: dict[int, tuple[int, ...]] = {}
        """Alignment -> sizes of the classes whose blocks have it."""

    def place(self, size_bytes: int, alignment: int) -> Place | None:
        size = self.class_of(size_bytes, alignment)
        if size is None:
            hits = self._below.hits
            place = self._take_below(size_bytes, alignment)
            self.hits += self._below.hits - hits
            return place
        opened = self._open[size]
        if opened:
            self.hits += 1
            return self._take_block(size, next(reversed(opened)))
        run = self._refill(size)
        return None if run is None else self._take_block(size, run)

    def put_back(self, place: Place) -> None:
        if not place.run:
            self._below.put_back(place)
            return
        run = self._runs[place.run]
        self._open[run.size_bytes][place.run] = run
        run.free.append(place.offset)
        self._free_bytes += run.size_bytes
        if len(run.free) == run.blocks and self._spare.setdefault(run.size_bytes, place.run) != place.run:
            self._close(place.run)

    def plan_moves(self, bytes_max: float) -> None:
        self._below.plan_moves(bytes_max)

    def relocate(self, place: Place, alignment: int) -> Place | None:
        """See Placement. A block goes to an open run of smaller rank. When there is none, its run is relocated: a new
        run is taken for this block and those beside it."""
        if not place.run:
            return self._below.relocate(place, alignment)
        own = self._runs[place.run]
        size = own.size_bytes
        ranks = {run: self._below.rank(one.place) for run, one in self._open[size].items()}
        best = min(ranks, key=lambda run: ranks[run], default=None)
        if best is not None and ranks[best] < self._below.rank(own.place):
            return self._take_block(size, best)
        extent = self._below.relocate(own.place, _run_alignment(size))
        return None if extent is None else self._take_block(size, self._add_run(size, extent, own.blocks))

    def compact(self, place: Place, alignment: int) -> Place | None:
        return self._below.compact(place, alignment)

    def distance(self, place: Place) -> int:
        """See Placement. A block does not slide: the bytes beside it belong to other blocks."""
        return 0 if place.run else self._below.distance(place)

    def rank(self, place: Place) -> tuple[int, int, int]:
        """See Placement. A block has the rank of its run."""
        return self._below.rank(self._runs[place.run].place if place.run else place)

    def tidy(self) -> None:
        """See Placement. Spare runs go back to the extents."""
        for run in list(self._spare.values()):
            self._close(run)

    def drop_empty(self) -> int:
        self.tidy()
        return self._below.drop_empty()

    @property
    def free_bytes(self) -> int:
        return self._below.free_bytes + self._free_bytes

    @property
    def largest_free_bytes(self) -> int:
        blocks = (size for size, runs in self._open.items() if runs)
        return max(self._below.largest_free_bytes, *blocks, 0)

    @property
    def pinned_bytes(self) -> int:
        """Bytes at the end of runs that are in no block: the size of a run is rounded up."""
        return sum(run.place.bytes - run.blocks * run.size_bytes for run in self._runs.values())

    def class_of(self, size_bytes: int, alignment: int) -> int | None:
        """Return the smallest class whose blocks hold `size_bytes` bytes at `alignment`; None when the extents do."""
        sizes = self._sizes.get(alignment)
        if sizes is None:
            sizes = tuple(size for size in CLASSES if size % alignment == 0 and alignment <= _RUN_ALIGNMENT_MAX)
            self._sizes[alignment] = sizes
        at = bisect_left(sizes, size_bytes)
        return sizes[at] if at < len(sizes) else None

    def _take_block(self, size: int, number: int) -> Place:
        run = self._runs[number]
        if len(run.free) == run.blocks and self._spare.get(size) == number:
            del self._spare[size]
        offset = run.free.pop()
        if not run.free:
            del self._open[size][number]
        self._free_bytes -= size
        return Place(run.place.segment, offset, size, number)

    def _refill(self, size: int) -> int | None:
        """Take a run for this class; one with fewer blocks where a whole run does not fit."""
        extent, blocks = None, blocks_of(size)
        while extent is None and blocks:
            extent = self._take_below(size * blocks, _run_alignment(size))
            blocks = blocks if extent else blocks // 2
        return None if extent is None else self._add_run(size, extent, blocks)

    def _take_below(self, size_bytes: int, alignment: int) -> Place | None:
        """Take a place from the extents. Without one, give the spare runs back and try again."""
        place = self._below.place(size_bytes, alignment)
        if place is None and self._spare:
            self.tidy()
            place = self._below.place(size_bytes, alignment)
        return place

    def _add_run(self, size: int, extent: Place, blocks: int) -> int:
        number, self._next_run = self._next_run, self._next_run + 1
        self._runs[number] = self._open[size][number] = _Run(extent, size, blocks)
        self._free_bytes += size * blocks
        return number

    def _close(self, number: int) -> None:
        run = self._runs.pop(number)
        del self._open[run.size_bytes][number]
        if self._spare.get(run.size_bytes) == number:
            del self._spare[run.size_bytes]
        self._free_bytes -= run.blocks * run.size_bytes
        self._below.put_back(run.place)


def blocks_of(size: int) -> int:
    """Blocks in a whole run of the class with blocks of `size` bytes."""
    return min(BLOCKS_PER_RUN, RUN_BYTES_MAX // size)


def _run_alignment(size: int) -> int:
    """Alignment (bytes) of a run: each block is aligned to the largest power of two that divides its size."""
    return min(size & -size, _RUN_ALIGNMENT_MAX)
