"""The real caching allocator of torch beside our model of it, and what our calls and copies cost; needs a GPU.

    python benchmarks/allocators_cuda.py

The same traces and the same room (as a limit on what torch may reserve); then the time of a segment made and given
back, and of a copy, which are what `calls` and `moved` of allocators.py stand for.
"""

import statistics
import sys
import time
from functools import partial
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.allocators_heaps import MIB, Heap
from benchmarks.allocators_torch import TorchModel
from benchmarks.allocators_trace import play
from benchmarks.allocators_traces import ORDERS, any_size, by_lifetime, wishes
from runtime.memory.spans.span import PoolKind

ROOM_BYTES, SEED = 1024 * MIB, 7
LOAD_BYTES = int(0.9 * ROOM_BYTES)


def main() -> int:
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, room {ROOM_BYTES // MIB} MiB, seed {SEED}")
    traces = {order: partial(wishes, choose, LOAD_BYTES, SEED) for order, choose in ORDERS.items()}
    traces["each kind by its lifetime"] = partial(by_lifetime, LOAD_BYTES, SEED)
    traces["any size"] = partial(any_size, LOAD_BYTES, SEED)
    print(f"{'':34}{'now':>8}{'given back':>12}{'failures':>10}{'calls':>7}")
    for name, made in traces.items():
        for who, heap in (("torch", TorchCuda()), ("model", TorchModel(ROOM_BYTES))):
            played = play(heap, made())
            print(
                f"{name:28}{who:6}{statistics.mean(played.fragmentation):8.1%}"
                f"{statistics.mean(played.given_back):12.1%}{played.failures:10}{heap.calls:7}"
            )
    made_us, given_us = _segment_us(16)
    print(f"a segment of 16 MiB: made in {made_us:.0f} us, given back in {given_us:.0f} us")
    print(f"a copy: {_copy_us(2):.0f} us for 2 MiB, {_copy_us(16):.0f} us for 16 MiB")
    return 0


class TorchCuda(Heap):
    def __init__(self) -> None:
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(ROOM_BYTES / torch.cuda.get_device_properties(0).total_memory)
        self._tensors: dict[int, torch.Tensor] = {}
        self._calls_before = _calls()

    @property
    def calls(self) -> int:  # type: ignore[override]
        return _calls() - self._calls_before

    def alloc(self, number: int, size_bytes: int, kind: PoolKind) -> bool:
        try:
            self._tensors[number] = torch.empty(size_bytes, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError:
            return False
        return True

    def free(self, number: int) -> None:
        del self._tensors[number]

    def pieces(self) -> tuple[int, int, int]:
        segments = [
            (one["total_size"], [block["size"] for block in one["blocks"] if block["state"] == "inactive"])
            for one in torch.cuda.memory_snapshot()
        ]
        left_bytes = ROOM_BYTES - sum(total for total, _ in segments)
        largest = max(left_bytes, *(size for _, free in segments for size in free), 0)
        given_back = left_bytes + sum(total for total, free in segments if free == [total])
        return left_bytes + sum(sum(free) for _, free in segments), largest, max(largest, given_back)


def _calls() -> int:
    stats = torch.cuda.memory_stats()
    return int(stats.get("num_device_alloc", 0) + stats.get("num_device_free", 0))


def _segment_us(mib: int) -> tuple[float, float]:
    torch.cuda.set_per_process_memory_fraction(1.0)
    made, given = [], []
    for _ in range(101):
        torch.cuda.empty_cache()
        start_ns = time.perf_counter_ns()
        tensor = torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")
        made.append(time.perf_counter_ns() - start_ns)
        del tensor
        start_ns = time.perf_counter_ns()
        torch.cuda.empty_cache()
        given.append(time.perf_counter_ns() - start_ns)
    return statistics.median(made) / 1000, statistics.median(given) / 1000


def _copy_us(mib: int) -> float:
    source, target = (torch.empty(mib * MIB, dtype=torch.uint8, device="cuda") for _ in range(2))
    figures = []
    for _ in range(101):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        target.copy_(source)
        end.record()
        end.synchronize()
        figures.append(begin.elapsed_time(end) * 1000)
    return statistics.median(figures)


if __name__ == "__main__":
    sys.exit(main())
