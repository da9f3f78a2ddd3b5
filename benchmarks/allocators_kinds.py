"""What six pools buy beside one, on the same room; a part of allocators.py.

Each kind lives as in a server (allocators_traces.py), then one of them runs away: from step 250 on, staging asks for
16 MiB each step and gives nothing back. A limit a kind, of 1.25 times its peak before that, stops it alone. Refused
requests climb the whole ladder, so empty segments are given back and spans are moved first.
"""

import argparse
from collections.abc import Iterator

from benchmarks.allocators_heaps import KINDS, MIB, Ours, Room
from benchmarks.allocators_trace import PAGE_BYTES, play
from benchmarks.allocators_traces import Wish, by_lifetime
from runtime.memory.spans.span import PoolKind

STARTS_AT = 250


def kinds(options: argparse.Namespace) -> list[str]:
    """One row a layout: wishes of each kind that failed."""
    room_bytes = options.room_mib * MIB
    load_bytes = int(room_bytes * options.fill)

    def calm() -> Iterator[Wish]:
        return by_lifetime(load_bytes, options.seed)

    limits = {kind: max(2 * MIB, peak * 5 // 4) for kind, peak in _peaks(calm()).items()}
    rows = [f"staging runs away, room {options.room_mib} MiB, load {options.fill:.0%}, seed {options.seed}: failed"]
    rows.append(f"{'':34}" + "".join(f"{kind:>12}" for kind in KINDS))
    layouts = {
        "one pool": Ours(Room(room_bytes, PAGE_BYTES), 1, "shared", "move"),
        "six pools": Ours(Room(room_bytes, PAGE_BYTES), 6, "shared", "move"),
        "six pools, a limit each": Ours(Room(room_bytes, PAGE_BYTES), 6, "shared", "move", limit_bytes=limits),
    }
    for name, heap in layouts.items():
        failed = play(heap, _running_away(calm())).failed_kinds
        rows.append(f"  {name:32}" + "".join(f"{failed.get(kind, 0):12}" for kind in KINDS))
    return rows


def _peaks(trace: Iterator[Wish]) -> dict[PoolKind, int]:
    live: dict[int, Wish] = {}
    now, peaks = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
    for wish in trace:
        if wish.size_bytes:
            live[wish.number] = wish
            now[wish.kind] += wish.size_bytes
            peaks[wish.kind] = max(peaks[wish.kind], now[wish.kind])
        else:
            gone = live.pop(wish.number)
            now[gone.kind] -= gone.size_bytes
    return peaks


def _running_away(trace: Iterator[Wish]) -> Iterator[Wish]:
    """Activations come once a step, so they are its clock."""
    steps = 0
    for wish in trace:
        yield wish
        steps += wish.kind is PoolKind.ACTIVATION and wish.size_bytes > 0
        if wish.kind is PoolKind.ACTIVATION and wish.size_bytes and steps > STARTS_AT:
            yield Wish(10**6 + steps, 16 * MIB, PoolKind.IO)
