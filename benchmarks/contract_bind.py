"""What binding a launch to its contract costs, for the engine's real inputs, and as a share of a decode step.

    python -m benchmarks.contract_bind [--rounds 41] [--loops 50] [--limit-share 0.02]

    facts       reading shape, strides, dtype and address of five arrays and the ragged block tables
    hit         Binder.check of facts whose signature is known: what a step of steady decode pays
    miss        the same with an empty cache: inference and all rules, paid once for each new shape
    counting    laying the launch out under `Conversions`, less laying it out without

The step is one decode launch of the embedded model with one torch thread, measured in turns with the rest (A B C A B C
...), so a slow minute falls on all alike; medians over the rounds, middle half beside them. The last line plays an
engine and says how often steps hit. Exit 1 when facts and hit together are over `--limit-share` of a step.
"""

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from faults import NullFaults
from runtime.build import WallClock
from runtime.contract.binder import Binder
from runtime.contract.registry import Contract, ContractKey
from runtime.contract.step import facts_of_work, step_io
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.core.work import Sampling, Work
from runtime.device.conversions import Conversions
from runtime.models.config import read_config
from runtime.models.decoder import Decoder
from runtime.models.default import default_model
from runtime.models.kv import PagedKv
from runtime.models.layout import lay_out
from runtime.models.loader import load_weights
from runtime.models.paged import PagedModel

BLOCK_TOKENS = 16
CONTEXT = 128
CONTRACT = Contract(ContractKey(model="default", version="1"), step_io(tokens_max=512, rows_max=32, blocks_max=512))


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    given = _options(arguments)
    torch.set_num_threads(1)
    columns = ("facts", "hit", "miss", "counting", "step")
    print(f"{'rows':>5}", *(f"{name + ' us':>24}" for name in columns), f"{'share':>9}")
    worst = 0.0
    for rows in given.rows:
        figures = measure(rows, given.rounds, given.loops)
        middle = {name: statistics.median(figures[name]) for name in columns}
        share = (middle["facts"] + middle["hit"]) / middle["step"]
        worst = max(worst, share)
        print(f"{rows:5}", *(f"{_with_spread(figures[name]):>24}" for name in columns), f"{share:9.2%}")
    print(hit_rate())
    print(f"facts and hit: {worst:.2%} of a step, {'within' if worst <= given.limit_share else 'OVER'} the limit")
    return 0 if worst <= given.limit_share else 1


def measure(rows: int, rounds: int, loops: int) -> dict[str, list[float]]:
    """Microseconds of each, one figure a round."""
    work = decode(rows, CONTEXT)
    model = embedded(rows)
    env = Env(WallClock(), 0, NullFaults(), Ledger())
    warm = Binder(env)
    facts = facts_of_work(work)
    parts: dict[str, tuple[Callable[[], object], int]] = {
        "facts": (lambda: facts_of_work(work), loops),
        "hit": (lambda: warm.check(CONTRACT, facts), loops),
        "miss": (lambda: Binder(env).check(CONTRACT, facts), loops // 5),
        "bare": (lambda: lay_out(work, model.kv), loops // 5),
        "counted": (lambda: _counted(work, model.kv), loops // 5),
        "step": (lambda: model.run(work), 1),
    }
    figures: dict[str, list[float]] = {name: [] for name in (*parts, "counting")}
    gc.disable()
    try:
        for _ in range(rounds + 1):
            for name, (call, times) in parts.items():
                figures[name].append(_timed_us(call, max(1, times)))
    finally:
        gc.enable()
    figures["counting"] = [max(0.0, a - b) for a, b in zip(figures["counted"], figures["bare"], strict=True)]
    return {name: values[1:] for name, values in figures.items()}  # the first round fills caches


def hit_rate(requests: int = 24, slots: int = 8, seed: int = 1) -> str:
    """Steps of continuous batching over `slots` rows, a new request a step at most: prompts of 20 to 200 tokens, 40 to
    120 tokens out."""
    draw = np.random.Generator(np.random.PCG64(seed))
    queue = [(int(draw.integers(20, 200)), int(draw.integers(40, 120))) for _ in range(requests)]
    running: list[list[int]] = []  # context, tokens left
    binder, steps, decodes, decode_hits = Binder(Env(WallClock(), 0, NullFaults(), Ledger())), 0, 0, 0
    while queue or running:
        fresh = [queue.pop(0)] if queue and len(running) < slots else []
        work = launch([(context, 1) for context, _ in running] + [(0, prompt) for prompt, _ in fresh])
        hits = binder.cache.hits
        binder.check(CONTRACT, facts_of_work(work))
        steps += 1
        if not fresh:
            decodes += 1
            decode_hits += binder.cache.hits - hits
        running = [[context + 1, left - 1] for context, left in running if left > 1]
        running += [[prompt, left] for prompt, left in fresh]
    hits = binder.cache.hits
    return (
        f"{steps} steps of {requests} requests over {slots} rows: {hits / steps:.1%} hits, "
        f"{decode_hits / decodes:.1%} of the {decodes} steps that only decode; {len(binder.cache)} entries"
    )


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
        block_tables=tuple(
            list(range(first, first + count)) for first, count in zip(firsts.tolist(), counts.tolist(), strict=True)
        ),
        sampling=(Sampling(),) * len(rows),
        lineages=(0,) * len(rows),
    )


def embedded(rows: int) -> PagedModel:
    """The embedded model, with KV for `rows` rows."""
    config = read_config(default_model())
    decoder = Decoder(config, load_weights(default_model(), config))
    return PagedModel(decoder, PagedKv(config, rows * (CONTEXT // BLOCK_TOKENS), BLOCK_TOKENS))


def _counted(work: Work, kv: PagedKv) -> None:
    with Conversions("step") as conversions:
        lay_out(work, kv)
    conversions.refuse()


def _timed_us(call: Callable[[], object], times: int) -> float:
    begin_ns = time.perf_counter_ns()
    for _ in range(times):
        call()
    return (time.perf_counter_ns() - begin_ns) / times / 1000


def _with_spread(values: list[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.1f} ({low:.1f}-{high:.1f})"


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What binding a launch to its contract costs.")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--loops", type=int, default=50)
    parser.add_argument("--limit-share", type=float, default=0.02)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
