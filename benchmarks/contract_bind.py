"""What holding a decode step to its contract costs, on the real tensors of each boundary, as a share of the step.

    python -m benchmarks.contract_bind [--rows 1 8 32] [--rounds 41] [--loops 50] [--limit-share 0.03]

    crossings   all boundaries of one step whose shapes are known: facts read, signature looked up
    miss        the same with an empty cache: inference and all rules, paid once for each new shape
    weighing    what counting layout conversions and unowned bytes adds to a step, once for each new batch shape

The step is one decode launch of the embedded model with one torch thread, measured in turns with the rest (A B C A B C
...), so a slow minute falls on all alike; medians over the rounds, middle half beside them. The last line plays
continuous batching and says how often crossings hit. Exit 1 when crossings are over `--limit-share` of a step.
"""

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from runtime.contract.binder import Binder
from runtime.core.env import Env
from runtime.core.work import Sampling, Work, padded_tables
from runtime.device.facts import TorchTensors
from runtime.models.config import read_config
from runtime.models.decoder import Decoder
from runtime.models.default import default_model
from runtime.models.kv import PagedKv
from runtime.models.loader import load_weights
from runtime.models.runner import ModelRunner

BLOCK_TOKENS = 16
CONTEXT = 128
Crossing = tuple[tuple[Any, ...], dict[str, Any]]


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    given = _options(arguments)
    torch.set_num_threads(1)
    columns = ("crossings", "miss", "weighing", "step")
    print(f"{'rows':>5}", *(f"{name + ' us':>24}" for name in columns), f"{'share':>9}")
    worst = 0.0
    for rows in given.rows:
        figures = measure(rows, given.rounds, given.loops)
        middle = {name: statistics.median(figures[name]) for name in columns}
        share = middle["crossings"] / middle["step"]
        worst = max(worst, share)
        print(f"{rows:5}", *(f"{_with_spread(figures[name]):>24}" for name in columns), f"{share:9.2%}")
    print(hit_rate())
    print(f"crossings: {worst:.2%} of a step, {'within' if worst <= given.limit_share else 'OVER'} the limit")
    return 0 if worst <= given.limit_share else 1


def measure(rows: int, rounds: int, loops: int) -> dict[str, list[float]]:
    """Microseconds of each, one figure a round."""
    work = decode(rows, CONTEXT)
    model = embedded(rows * (CONTEXT // BLOCK_TOKENS))
    crossings = crossings_of(model, work)
    parts: dict[str, tuple[Callable[[], object], int]] = {
        "crossings": (lambda: replay(model.contract.binder, crossings), loops),
        "miss": (lambda: replay(Binder(Env.quiet(), TorchTensors()), crossings), loops // 5),
        "step": (lambda: model.run(work), 1),
        "weighed": (lambda: weigh(model, work), 1),
    }
    figures: dict[str, list[float]] = {name: [] for name in parts}
    gc.disable()
    try:
        for _ in range(rounds + 1):
            for name, (call, times) in parts.items():
                figures[name].append(_timed_us(call, max(1, times)))
    finally:
        gc.enable()
    figures["weighing"] = [max(0.0, a - b) for a, b in zip(figures["weighed"], figures["step"], strict=True)]
    return {name: values[1:] for name, values in figures.items()}  # the first round fills caches


def crossings_of(model: ModelRunner, work: Work) -> list[Crossing]:
    """Every call of `Binder.cross` in one step, with its tensors. Those in the step's own bytes stay readable: their
    pools keep them."""
    seen: list[Crossing] = []
    binder = model.contract.binder
    cross = binder.cross

    def looking(*given: Any, **more: Any) -> tuple[torch.Tensor, ...]:
        seen.append((given, more))
        return cross(*given, **more)

    model.run(work)  # warm
    binder.cross = looking  # type: ignore[method-assign]
    model.run(work)
    del binder.cross
    return seen


def replay(binder: Binder[torch.Tensor], crossings: Sequence[Crossing]) -> None:
    """Cross every boundary once more."""
    for given, more in crossings:
        binder.cross(*given, **more)


def weigh(model: ModelRunner, work: Work) -> None:
    """A step whose batch shape is new."""
    model._measured.clear()
    model.run(work)


def hit_rate(requests: int = 24, slots: int = 8, seed: int = 1) -> str:
    """Steps of continuous batching over `slots` rows, a new request a step at most: prompts of 20 to 200 tokens, 40 to
    120 tokens out."""
    draw = np.random.Generator(np.random.PCG64(seed))
    queue = [(int(draw.integers(20, 200)), int(draw.integers(40, 120))) for _ in range(requests)]
    running: list[list[int]] = []  # context, tokens left
    model = embedded(slots * 320 // BLOCK_TOKENS)
    cache, steps = model.contract.binder.cache, 0
    while queue or running:
        fresh = [queue.pop(0)] if queue and len(running) < slots else []
        model.run(launch([(context, 1) for context, _ in running] + [(0, prompt) for prompt, _ in fresh]))
        steps += 1
        running = [[context + 1, left - 1] for context, left in running if left > 1]
        running += [[prompt, left] for prompt, left in fresh]
    rate = cache.hits / (cache.hits + cache.misses)
    return f"{steps} steps of {requests} requests over {slots} rows: {rate:.1%} hits; {len(cache)} entries"


def decode(rows: int, context: int) -> Work:
    """One new token for each of `rows` rows that have `context - 1` behind them."""
    return launch([(context - 1, 1)] * rows)


def launch(rows: Sequence[tuple[int, int]]) -> Work:
    """A launch of (tokens behind, new tokens) rows, each in blocks of its own."""
    starts, lengths = np.array([start for start, _ in rows]), np.array([length for _, length in rows])
    row_starts = np.concatenate(([0], np.cumsum(lengths)))
    positions = np.arange(row_starts[-1]) + np.repeat(starts - row_starts[:-1], lengths)
    ends = starts + lengths
    counts = -(-ends // BLOCK_TOKENS)
    firsts = np.cumsum(counts) - counts
    return Work(
        step=0,
        model_key="",
        request_ids=tuple(f"r{row}" for row in range(len(rows))),
        token_ids=np.full(len(positions), 65),
        positions=positions,
        slots=np.repeat(firsts, lengths) * BLOCK_TOKENS + positions,
        row_starts=row_starts,
        context_lens=ends,
        block_tables=padded_tables(
            [range(first, first + count) for first, count in zip(firsts.tolist(), counts.tolist(), strict=True)]
        ),
        sampling=(Sampling(),) * len(rows),
        prefix_hashes=np.zeros(len(rows), np.uint64),
    )


def embedded(blocks: int) -> ModelRunner:
    """The embedded model, with so many blocks of KV."""
    config = read_config(default_model())
    decoder = Decoder(config, load_weights(default_model(), config))
    return ModelRunner(decoder, PagedKv(config, blocks, BLOCK_TOKENS))


def _timed_us(call: Callable[[], object], times: int) -> float:
    begin_ns = time.perf_counter_ns()
    for _ in range(times):
        call()
    return (time.perf_counter_ns() - begin_ns) / times / 1000


def _with_spread(values: list[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.1f} ({low:.1f}-{high:.1f})"


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What holding a step to its contract costs.")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--loops", type=int, default=50)
    parser.add_argument("--limit-share", type=float, default=0.03)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
