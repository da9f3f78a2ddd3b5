"""What each allocator leaves of a room; a part of allocators.py.

now         1 - largest free piece / free bytes, over the whole room, as a mean over the rounds after it was first full
given back  the same, once segments that hold nothing are given back, which is done before a wish is refused
failures    wishes that found enough free bytes, but not in one piece; `short` those that did not find enough
served      the largest wish that succeeds at the end, tried in steps of 2 MiB, with all that the allocator can do
calls       segments made and given back; copies, moved: what was moved, beside what was asked for in the whole trace
"""

import argparse
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from benchmarks.allocators_heaps import MIB, Heap, Ours, Room
from benchmarks.allocators_torch import TorchModel
from benchmarks.allocators_traces import ORDERS, Wish, any_size, by_lifetime, wishes
from runtime.memory.spans.span import PoolKind

SEED_SAYS = (
    "the seed claims, with neither order nor load nor code: 'Triton Allocator' 12.3 %, largest 48.2 MB, 0 failures;",
    "PyTorch CachingAllocator 37.8 %, 8.9 MB, 17 (Triton has no allocator for tensors)",
)
PAGE_BYTES = 2 * MIB


@dataclass
class Played:
    fragmentation: list[float] = field(default_factory=list)
    given_back: list[float] = field(default_factory=list)
    failures: int = 0
    short: int = 0
    """Failed with too few bytes free: not the allocator's doing."""
    failed_kinds: dict[PoolKind, int] = field(default_factory=dict)
    asked_bytes: int = 0


def play(heap: Heap, trace: Iterator[Wish]) -> Played:
    """Each wish in turn; what failed is never freed."""
    played = Played()
    held: set[int] = set()
    for wish in trace:
        if not wish.size_bytes:
            if wish.number in held:
                heap.free(wish.number)
                held.remove(wish.number)
            continue
        played.asked_bytes += wish.size_bytes
        if heap.alloc(wish.number, wish.size_bytes, wish.kind):
            held.add(wish.number)
        else:
            played.failed_kinds[wish.kind] = played.failed_kinds.get(wish.kind, 0) + 1
            if heap.pieces()[0] >= wish.size_bytes:
                played.failures += 1
            else:
                played.short += 1
        if wish.measure:
            free, largest, given_back = heap.pieces()
            played.fragmentation.append(1 - largest / free if free else 0.0)
            played.given_back.append(1 - given_back / free if free else 0.0)
            if heap.quiet_each and len(played.fragmentation) % heap.quiet_each == 0:
                heap.quiet()
    return played


def served_bytes(heap: Heap) -> int:
    """By trial, from what is free downwards."""
    free = heap.pieces()[0]
    for size_bytes in range(free - free % PAGE_BYTES, 0, -PAGE_BYTES):
        if any(heap.alloc(-1, size_bytes, kind) for kind in PoolKind):
            heap.free(-1)
            return size_bytes
    return 0


def heaps(room_bytes: int) -> dict[str, Callable[[], Heap]]:
    """A room in one segment, or in shared segments of 16 MiB."""

    def ours(pools: int, layout: str, rungs: str = "", each: int = 0, quiet_bytes: int | None = None) -> Heap:
        return Ours(Room(room_bytes, PAGE_BYTES), pools, layout, rungs, each, quiet_bytes)

    return {
        "one pool, one segment": partial(ours, 1, "one segment"),
        "one pool, one segment, ladder": partial(ours, 1, "one segment", "move"),
        "  and 32 MiB moved each 10 rounds": partial(ours, 1, "one segment", "move", 10, 32 * MIB),
        "one pool, shared segments": partial(ours, 1, "shared"),
        "one pool, shared, ladder": partial(ours, 1, "shared", "move"),
        "six pools, shared segments": partial(ours, 6, "shared"),
        "six pools, shared, given back": partial(ours, 6, "shared", "release"),
        "six pools, shared, ladder": partial(ours, 6, "shared", "move"),
        "torch's caching allocator (model)": partial(TorchModel, room_bytes),
    }


def trace(options: argparse.Namespace) -> list[str]:
    """One block of rows a trace."""
    room_bytes = options.room_mib * MIB
    load_bytes = int(room_bytes * options.fill)
    traces: dict[str, Callable[[], Iterator[Wish]]] = {
        f"2/16/2 MiB, freed: {order}": partial(wishes, choose, load_bytes, options.seed)
        for order, choose in ORDERS.items()
    }
    traces["each kind by its lifetime"] = partial(by_lifetime, load_bytes, options.seed)
    traces["any size, freed: random"] = partial(any_size, load_bytes, options.seed)
    rows = [f"room {options.room_mib} MiB in pages of 2 MiB, load {options.fill:.0%}, seed {options.seed}"]
    for name, made in traces.items():
        rows.append(
            f"{name:34}{'now':>7}{'given back':>11}{'failures':>9}{'served':>11}{'calls':>7}{'copies':>7}{'moved':>16}"
        )
        rows += [_row(heap_name, make(), made()) for heap_name, make in heaps(room_bytes).items()]
    return [*rows, *SEED_SAYS]


def _row(name: str, heap: Heap, trace: Iterator[Wish]) -> str:
    played = play(heap, trace)
    calls, copies, moved_mib = heap.calls, heap.copies, heap.moved_bytes / MIB
    moved = f"{moved_mib:.0f} MiB {heap.moved_bytes / played.asked_bytes:5.1%}"
    return (
        f"  {name:32}{statistics.mean(played.fragmentation):7.1%}{statistics.mean(played.given_back):11.1%}"
        f"{played.failures:9}{served_bytes(heap) / MIB:7.0f} MiB{calls:7}{copies:7}{moved:>16}"
        + (f"  short {played.short}" if played.short else "")
    )
