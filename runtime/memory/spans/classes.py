"""Size classes: runs of sixteen blocks of one size, taken from the extents and given back to them.

    class 96    run 7  |x| |x|x| | |x|...   16 blocks; free ones on the run's own list, the run itself one extent
                run 9  |x|x|x|x|x|x|x|...   full: not on the class's list of open runs

Alloc and free are a pop and a push. The seed's refill cuts a large block up and forgets it; here each run is kept, so
when its last block is back it returns whole, merges with its neighbours, and its segment can be given back. One empty
run per class stays as a spare, or a lone block that comes and goes would cut a run each time.

Steps of 1.5 and 1.33 in turn: at most a third of a block is rounding. What is larger than the last class, or aligned to
more than a run is, goes to the extents as it is.
"""

from bisect import bisect_left

from runtime.memory.spans.failures import OutOfMemory
from runtime.memory.spans.placement import Place, Placement

CLASSES = (*(size for power in range(6, 17) for size in (1 << power, 3 << power - 1)), 131072)
"""64, 96, 128, 192 ... 65536, 98304, 131072: the seed's table."""
BLOCKS_PER_RUN = 16
RUN_BYTES_MAX = 256 * 1024
"""Sixteen blocks of the largest class would be 2 MiB, and a nail of that size for one block in use."""
_RUN_ALIGNMENT_MAX = 4096


class _Run:
    """Neighbours of one class."""

    __slots__ = ("blocks", "free", "place", "size_bytes")

    def __init__(self, place: Place, size_bytes: int, blocks: int) -> None:
        self.place, self.size_bytes, self.blocks = place, size_bytes, blocks
        self.free = [place.offset + n * size_bytes for n in range(self.blocks - 1, -1, -1)]


class Classes:
    """See Placement. `home` of a place is its run; 0 is a span of the extents."""

    full = OutOfMemory

    def __init__(self, below: Placement) -> None:
        self.longest = below.longest
        self._below = below
        self._block_hits = 0
        self._refill_hits = 0
        self._next_run = 1
        self._runs: dict[int, _Run] = {}
        self._open: dict[int, dict[int, _Run]] = {size: {} for size in CLASSES}
        self._spare: dict[int, int] = {}
        self._free_bytes = 0
        self._sizes: dict[int, tuple[int, ...]] = {}

    @property
    def hits(self) -> int:
        """Blocks of an open run, and large spans of a segment that was there; refills are neither."""
        return self._block_hits + self._below.hits - self._refill_hits

    def place(self, size_bytes: int, alignment: int) -> Place | None:
        """See Placement. Before it says no it gives the spares up."""
        size = self.class_of(size_bytes, alignment)
        if size is None:
            return self._large(size_bytes, alignment)
        opened = self._open[size]
        if opened:
            self._block_hits += 1
            return self._block(size, next(reversed(opened)))
        run = self._refill(size)
        return None if run is None else self._block(size, run)

    def put_back(self, place: Place) -> None:
        """See Placement."""
        if not place.home:
            self._below.put_back(place)
            return
        run = self._runs[place.home]
        self._open[run.size_bytes][place.home] = run
        run.free.append(place.offset)
        self._free_bytes += run.size_bytes
        if len(run.free) == run.blocks and self._spare.setdefault(run.size_bytes, place.home) != place.home:
            self._close(place.home)

    def plan_moves(self, bytes_max: float) -> None:
        """See Placement."""
        self._below.plan_moves(bytes_max)

    def relocate(self, place: Place, alignment: int) -> Place | None:
        """See Placement. A block goes to a run before its own; when there is none, a new run is cut there for it and
        those beside it."""
        if not place.home:
            return self._below.relocate(place, alignment)
        own = self._runs[place.home]
        ranks = {run: self._below.rank(one.place) for run, one in self._open[own.size_bytes].items()}
        best = min(ranks, key=lambda run: ranks[run], default=None)
        if best is not None and ranks[best] < self._below.rank(own.place):
            return self._block(own.size_bytes, best)
        extent = self._below.relocate(own.place, _run_alignment(own.size_bytes))
        return (
            None if extent is None else self._block(own.size_bytes, self._add_run(own.size_bytes, extent, own.blocks))
        )

    def compact(self, place: Place, alignment: int) -> Place | None:
        """See Placement."""
        return self._below.compact(place, alignment)

    def distance(self, place: Place) -> int:
        """See Placement. A block does not slide: it has no bytes of its own to slide over."""
        return 0 if place.home else self._below.distance(place)

    def rank(self, place: Place) -> tuple[int, int, int]:
        """See Placement: a block is as far off as its run."""
        return self._below.rank(self._runs[place.home].place if place.home else place)

    def tidy(self) -> None:
        """The spares go back to the extents."""
        for run in list(self._spare.values()):
            self._close(run)

    def drop_empty(self) -> int:
        """See Placement."""
        self.tidy()
        return self._below.drop_empty()

    @property
    def total_bytes(self) -> int:
        """See Placement."""
        return self._below.total_bytes

    @property
    def free_bytes(self) -> int:
        """In extents, and in blocks of open runs."""
        return self._below.free_bytes + self._free_bytes

    @property
    def largest_free_bytes(self) -> int:
        """See Placement."""
        blocks = (size for size, runs in self._open.items() if runs)
        return max(self._below.largest_free_bytes, *blocks, 0)

    @property
    def pinned_bytes(self) -> int:
        """What a run was rounded up by, beside its blocks."""
        return sum(run.place.bytes - run.blocks * run.size_bytes for run in self._runs.values())

    def class_of(self, size_bytes: int, alignment: int) -> int | None:
        """The smallest class whose blocks hold it and lie on `alignment`; None when it is one for the extents."""
        sizes = self._sizes.get(alignment)
        if sizes is None:
            sizes = tuple(size for size in CLASSES if size % alignment == 0 and alignment <= _RUN_ALIGNMENT_MAX)
            self._sizes[alignment] = sizes
        at = bisect_left(sizes, size_bytes)
        return sizes[at] if at < len(sizes) else None

    def _block(self, size: int, home: int) -> Place:
        run = self._runs[home]
        if len(run.free) == run.blocks and self._spare.get(size) == home:
            del self._spare[size]
        offset = run.free.pop()
        if not run.free:
            del self._open[size][home]
        self._free_bytes -= size
        return Place(run.place.segment, offset, size, home)

    def _refill(self, size: int) -> int | None:
        hits = self._below.hits
        extent, blocks = None, blocks_of(size)
        while extent is None and blocks:
            extent = self._large(size * blocks, _run_alignment(size))
            blocks = blocks if extent else blocks // 2  # where no whole run fits, a few blocks may
        self._refill_hits += self._below.hits - hits
        return None if extent is None else self._add_run(size, extent, blocks)

    def _large(self, size_bytes: int, alignment: int) -> Place | None:
        place = self._below.place(size_bytes, alignment)
        if place is None and self._spare:
            self.tidy()
            place = self._below.place(size_bytes, alignment)
        return place

    def _add_run(self, size: int, extent: Place, blocks: int) -> int:
        home, self._next_run = self._next_run, self._next_run + 1
        self._runs[home] = self._open[size][home] = _Run(extent, size, blocks)
        self._free_bytes += size * blocks
        return home

    def _close(self, home: int) -> None:
        run = self._runs.pop(home)
        del self._open[run.size_bytes][home]
        if self._spare.get(run.size_bytes) == home:
            del self._spare[run.size_bytes]
        self._free_bytes -= run.blocks * run.size_bytes
        self._below.put_back(run.place)


def blocks_of(size: int) -> int:
    """Blocks in a run of this class, where there is room for them."""
    return min(BLOCKS_PER_RUN, RUN_BYTES_MAX // size)


def _run_alignment(size: int) -> int:
    """So that a block is aligned to the largest power of two in its size."""
    return min(size & -size, _RUN_ALIGNMENT_MAX)
