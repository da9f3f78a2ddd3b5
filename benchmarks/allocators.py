"""How fast our allocators are and how they leave memory, beside torch.

    python benchmarks/allocators.py                 all tables
    python benchmarks/allocators.py --only speed    alloc and free in ns, beside torch.empty on the CPU
    python benchmarks/allocators.py --only trace    what is left of a room: the seed's 2/16/2 MiB and others
    python benchmarks/allocators.py --only policies where to lay a span, in a room that can't be left
    python benchmarks/allocators.py --only moves    fragmentation against bytes moved
    python benchmarks/allocators.py --only kinds    what six pools buy beside one
    python benchmarks/allocators.py --only kv       contiguous, paged, paged and chunked KV on one trace

Speed: rounds go A B C ... A B C ...; the best round is printed, with the median, since others use this machine too. The
floor is what Python takes for the two calls and the span alone.

What the others measure is said at the head of allocators_<table>.py.
"""

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.allocators_heaps import real_env
from benchmarks.allocators_kinds import kinds
from benchmarks.allocators_kv import kv
from benchmarks.allocators_moves import moves
from benchmarks.allocators_policies import policies
from benchmarks.allocators_trace import trace
from runtime.core.owner import Owner
from runtime.core.ports import Ticket
from runtime.memory.kv.paged import PagedPool
from runtime.memory.spans.adaptors.fault import Fault
from runtime.memory.spans.adaptors.limit import Limit
from runtime.memory.spans.adaptors.retry import Retry, ladder
from runtime.memory.spans.adaptors.stats import Stats
from runtime.memory.spans.adaptors.track import Track
from runtime.memory.spans.arena import Arena
from runtime.memory.spans.classes import Classes
from runtime.memory.spans.extents import Extents
from runtime.memory.spans.placement import Placement
from runtime.memory.spans.pool import Pool
from runtime.memory.spans.ring import Ring
from runtime.memory.spans.span import AllocRequest, Lifetime, PoolKind, ResetScope, Span
from runtime.memory.spans.span_pool import SpanPool
from runtime.memory.spans.upstream import Reserve, Segments

KIB, MIB = 1024, 1024 * 1024


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    tables = {"speed": speed, "trace": trace, "policies": policies, "moves": moves, "kinds": kinds, "kv": kv}
    for name, table in tables.items():
        if options.only in (None, name):
            print("\n".join(table(options)), end="\n\n")
    return 0


def speed(options: argparse.Namespace) -> list[str]:
    """One row a way to get bytes."""
    ways = _ways()
    figures: dict[str, list[float]] = {name: [] for name in ways}
    gc.disable()
    try:
        for _ in range(options.rounds):
            for name, way in ways.items():
                start_ns = time.perf_counter_ns()
                way(options.loops)
                figures[name].append((time.perf_counter_ns() - start_ns) / options.loops)
    finally:
        gc.enable()
    rows = [f"{'alloc + free':34}{'best ns':>9}{'median':>9}"]
    rows += [f"{name:34}{min(ns):9.0f}{statistics.median(ns):9.0f}" for name, ns in figures.items()]
    return rows


def _ways() -> dict[str, Callable[[int], None]]:
    import torch

    torch.set_num_threads(1)

    def pairs(pool: Pool, request: AllocRequest) -> Callable[[int], None]:
        def way(loops: int) -> None:
            for _ in range(loops):
                pool.free(pool.alloc(request), None)

        return way

    def steps(pool: Pool, request: AllocRequest) -> Callable[[int], None]:
        scope = ResetScope(Lifetime.GRAPH)

        def way(loops: int) -> None:
            for _ in range(loops // 100):
                for _ in range(100):
                    pool.alloc(request)
                pool.reset(scope, None)

        return way

    def tensors(size_bytes: int) -> Callable[[int], None]:
        def way(loops: int) -> None:
            for _ in range(loops):
                torch.empty(size_bytes, dtype=torch.uint8)

        return way

    class Floor:
        def alloc(self, request: AllocRequest) -> Span:
            return Span("floor", 0, 0, request.bytes, 1)

        def free(self, span: Span, after: Ticket | None) -> None:
            return

    def blocks(pool: PagedPool) -> Callable[[int], None]:
        owner = Owner("s")

        def way(loops: int) -> None:
            for _ in range(loops):
                taken, _ = pool.take(owner, 1)
                pool.release(owner, taken, None)

        return way

    def floor(loops: int) -> None:
        pool = Floor()
        for _ in range(loops):
            pool.free(pool.alloc(small), None)

    small, large = (AllocRequest(size, pool=PoolKind.IO, session="s") for size in (KIB, MIB))
    step = AllocRequest(KIB, lifetime=Lifetime.GRAPH)
    return {
        "floor: two calls and a span": floor,
        "arena 1 KiB, reset each 100": steps(_pool("arena", lambda one: Arena(one)), step),
        "ring 1 KiB": pairs(_pool("ring", Ring), small),
        "size classes 1 KiB": pairs(_pool("classes", lambda one: Classes(Extents(one))), small),
        "  Limit, Fault, Retry, Stats": pairs(_stack(tracked=False), small),
        "  and Track": pairs(_stack(tracked=True), small),
        "size classes 1 MiB (extents)": pairs(_pool("classes", lambda one: Classes(Extents(one))), large),
        "KV block": blocks(PagedPool(real_env(), 64, 16, timer=time.perf_counter_ns)),
        "torch.empty 1 KiB, CPU": tensors(KIB),
        "torch.empty 1 MiB, CPU": tensors(MIB),
    }


def _pool(name: str, placement: Callable[[Segments], Placement]) -> SpanPool:
    return SpanPool(real_env(), name, placement(Segments(Reserve(64 * MIB), name, 16 * MIB)))


def _stack(tracked: bool) -> Pool:
    env, bare = real_env(), _pool("classes", lambda one: Classes(Extents(one)))
    inner: Pool = Track(bare, env) if tracked else bare
    return Stats(Retry(Limit(Fault(inner, env), 64 * MIB), env, ladder(env, bare)), env.clock, env.clock.now_ns)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["speed", "trace", "policies", "moves", "kinds", "kv"])
    parser.add_argument("--rounds", type=int, default=21, help="of the speed table")
    parser.add_argument("--loops", type=int, default=2000, help="pairs in a round; a multiple of 100")
    parser.add_argument("--room-mib", type=int, default=1024)
    parser.add_argument("--fill", type=float, default=0.9, help="share of the room that is kept live")
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
