"""What 2 / 16 / 2 MiB leave of a room; a part of allocators.py.

The load is kept at `--fill` of `--room-mib` by freeing in the order that the table names, and the wishes are the
same for every allocator. The six kinds take turns, which gives them no lifetime of their own; the last block of rows
has a trace in which each kind lives as it does in a server. Fragmentation is 1 - largest free piece / free bytes, over
the whole room, as a mean over the rounds after the room was first full. A failure is a wish that found enough free
bytes, but not in one piece. torch's caching allocator is a model (best fit, coalescing inside a segment, its published
sizes), since it needs a GPU.
"""

import argparse
import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from benchmarks.allocators_heaps import KINDS, MIB, Heap, Ours, TorchModel
from runtime.memory.spans import PoolKind


@dataclass(frozen=True)
class Wish:
    """Ask for `size_bytes` under a number, or give that number back (0 bytes)."""

    number: int
    size_bytes: int
    kind: PoolKind = PoolKind.IO
    measure: bool = False


Choose = Callable[[list[tuple[int, int]], random.Random], int]
"""Which of the live (number, size) to free."""


def _newest(live: list[tuple[int, int]], rng: random.Random) -> int:
    return len(live) - 1


def _large_first(live: list[tuple[int, int]], rng: random.Random) -> int:
    return next((at for at, (_, size) in enumerate(live) if size > 2 * MIB), 0)


def _any(live: list[tuple[int, int]], rng: random.Random) -> int:
    return rng.randrange(len(live))


ORDERS: dict[str, Choose] = {"last in, first out": _newest, "the 16s first": _large_first, "random": _any}


def wishes(choose: Choose, room_bytes: int, seed: int, rounds: int = 500) -> Iterator[Wish]:
    """The seed's 2 / 16 / 2, each round; before each wish live bytes are brought down so that it fits the load."""
    rng = random.Random(f"{seed}/allocators")
    live: list[tuple[int, int]] = []
    live_bytes, number, full = 0, 0, False
    for one in range(rounds):
        for at, size_bytes in enumerate((2 * MIB, 16 * MIB, 2 * MIB)):
            while live_bytes + size_bytes > room_bytes:
                full = True
                gone, gone_bytes = live.pop(choose(live, rng))
                live_bytes -= gone_bytes
                yield Wish(gone, 0)
            number += 1
            live.append((number, size_bytes))
            live_bytes += size_bytes
            yield Wish(number, size_bytes, KINDS[(3 * one + at) % 6], measure=full and at == 2)


def by_lifetime(room_bytes: int, seed: int, steps: int = 500) -> Iterator[Wish]:
    """Kinds as they live: weights read through staging and kept, sessions that come and go, prefixes that stay long,
    activations of a step, workspace of an operator."""
    rng = random.Random(f"{seed}/lifetimes")
    due: dict[int, list[tuple[int, int]]] = {}
    last, live_bytes = 0, 0

    def ask(size_bytes: int, kind: PoolKind, until: int | None, measure: bool = False) -> Iterator[Wish]:
        nonlocal last, live_bytes
        if until is not None and live_bytes + size_bytes > room_bytes:
            return
        last += 1
        live_bytes += size_bytes
        if until is not None:
            due.setdefault(until, []).append((last, size_bytes))
        yield Wish(last, size_bytes, kind, measure)

    for step in range(-20, steps):
        for number, size_bytes in due.pop(step, []):
            live_bytes -= size_bytes
            yield Wish(number, 0)
        if step < 0:
            yield from ask(16 * MIB, PoolKind.WEIGHT, None)
            yield from ask(16 * MIB, PoolKind.IO, min(0, step + rng.randint(1, 4)))
            continue
        yield from ask(16 * MIB, PoolKind.ACTIVATION, step + 1)
        yield from ask(2 * MIB, PoolKind.WORKSPACE, step + 1)
        for _ in range(rng.randint(0, 6)):
            yield from ask(2 * MIB, PoolKind.KV, step + rng.randint(5, 200))
        if rng.random() < 0.2:
            yield from ask(2 * MIB, PoolKind.PREFIX, step + rng.randint(200, 600))
        swap = 16 * MIB if rng.random() < 0.1 else 2 * MIB
        yield from ask(swap, PoolKind.IO, step + rng.randint(1, 40), measure=step > 100)


@dataclass
class Played:
    fragmentation: list[float] = field(default_factory=list)
    largest_bytes: list[int] = field(default_factory=list)
    failures: int = 0
    short: int = 0
    """Failed with too few bytes free: not the allocator's doing."""


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
        if heap.alloc(wish.number, wish.size_bytes, wish.kind):
            held.add(wish.number)
        elif heap.pieces()[0] >= wish.size_bytes:
            played.failures += 1
        else:
            played.short += 1
        if wish.measure:
            free, largest = heap.pieces()
            played.fragmentation.append(1 - largest / free if free else 0.0)
            played.largest_bytes.append(largest)
            if len(played.largest_bytes) % 50 == 0:
                heap.quiet()
    return played


def trace(options: argparse.Namespace) -> list[str]:
    """One block of rows an order of freeing."""
    room_bytes = options.room_mib * MIB
    heaps: dict[str, Callable[[], Heap]] = {
        "ours, one pool": lambda: Ours(room_bytes, 1),
        "ours, one pool, ladder": lambda: Ours(room_bytes, 1, repair=True),
        "ours, one pool, defrag each 50": lambda: Ours(room_bytes, 1, repair=True, tended=True),
        "ours, six pools": lambda: Ours(room_bytes, 6),
        "ours, six pools, ladder": lambda: Ours(room_bytes, 6, repair=True),
        "ours, six pools, defrag each 50": lambda: Ours(room_bytes, 6, repair=True, tended=True),
        "torch's caching allocator (model)": lambda: TorchModel(room_bytes),
    }
    rows = [f"2/16/2 MiB, 500 rounds, {options.room_mib} MiB, load {options.fill:.0%}, seed {options.seed}"]
    load_bytes = int(room_bytes * options.fill)
    traces: dict[str, Callable[[], Iterator[Wish]]] = {
        order: partial(wishes, choose, load_bytes, options.seed) for order, choose in ORDERS.items()
    }
    traces["each kind by its lifetime"] = partial(by_lifetime, load_bytes, options.seed)
    for order, made in traces.items():
        rows.append(f"{order:34}{'frag mean':>10}{'end':>7}{'largest end':>13}{'min':>7}{'failures':>10}{'moved':>8}")
        for name, make in heaps.items():
            heap = make()
            played = play(heap, made())
            rows.append(
                f"  {name:32}{statistics.mean(played.fragmentation):10.1%}{played.fragmentation[-1]:7.1%}"
                f"{played.largest_bytes[-1] / MIB:9.1f} MiB{min(played.largest_bytes) / MIB:7.1f}"
                f"{played.failures:10}{heap.moved_bytes / MIB:8.0f}"
                + (f"  short {played.short}" if played.short else "")
            )
    rows.append("the seed's figures, order not given: Triton 12.3 %, 48.2 MB, 0; torch 37.8 %, 8.9 MB, 17")
    return rows
