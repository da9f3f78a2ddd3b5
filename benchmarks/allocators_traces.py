"""Who asks for what, and when it goes; a part of allocators.py. The wishes are the same for every allocator.

2/16/2 MiB    the seed's three sizes, 500 rounds; the load is kept at its bound by freeing in one of three orders
by lifetime   kinds as they live in a server: weights, sessions, prefixes, activations, staging
any size      sizes log-uniform from 4 KiB to 32 MiB, 73 of 100 steps ask and the others free (as RMM's
              random_allocations), any live span goes when the load is at its bound
"""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.allocators_heaps import KINDS, MIB
from runtime.memory.spans.span import PoolKind


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


def any_size(room_bytes: int, seed: int, steps: int = 2000) -> Iterator[Wish]:
    """No two sizes alike, so that no allocator can live on sizes that come again."""
    rng = random.Random(f"{seed}/any size")
    live: list[tuple[int, int]] = []
    live_bytes, number, full = 0, 0, False
    for _ in range(steps):
        size_bytes = int(math.exp(rng.uniform(math.log(4 * 1024), math.log(32 * MIB))))
        asks = rng.random() < 0.73
        while live and (not asks or live_bytes + size_bytes > room_bytes):
            full = full or asks
            gone, gone_bytes = live.pop(rng.randrange(len(live)))
            live_bytes -= gone_bytes
            yield Wish(gone, 0)
            if not asks:
                break
        if asks:
            number += 1
            live.append((number, size_bytes))
            live_bytes += size_bytes
            yield Wish(number, size_bytes, KINDS[number % 6], measure=full)
