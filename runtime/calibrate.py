"""Measures the time of launches on the CPU runtime of this machine, and writes a cost table for virtual runs.

    seatrial calibrate [--out FILE]          python -m runtime.calibrate [--out FILE]

    grid      medians over prompts of several lengths, and over decode batches of several sizes and contexts
    check     a run with random requests that the table was not made from; the table predicts each of its launches

The time of a launch is the time between two turns of the engine, so it includes the scheduler and the engine's thread.
"""

import argparse
import json
import os
import platform
import random
import re
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from runtime.core.messages import Output, Submit
from runtime.core.ports import Ticket
from runtime.core.work import Sampling
from runtime.device.costs import CostTable
from runtime.scheduling.batch import Batch
from runtime.server.journal import Journal

BLOCK_TOKENS = 16
BLOCKS = 2048
TOKEN_BUDGET = 512
PROMPTS = (1, 16, 64, 128, 256, 512)
ROWS = (1, 2, 4, 8, 16, 32)
CONTEXTS = (16, 64, 256, 768)
REPEATS = 7
ROUNDS = 3
CHECKED = 40
JITTER_MAX = 0.5
FOREVER_NS = 1 << 62


@dataclass(frozen=True)
class Launched:
    """One launch of the engine, and the time up to the next turn."""

    prompt_tokens: int
    rows: int
    context: int
    """Mean context of the decode rows, in tokens."""
    took_ns: int


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, and writes the table to `--out` or stdout."""
    parser = argparse.ArgumentParser(prog="seatrial calibrate", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, help="the table's file; without it the table is printed")
    parser.add_argument("--name", default="cpu", help="name of the table in virtual reports")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    given = parser.parse_args(argv)
    table = calibrate(given.name, given.threads)
    print(table.words(), file=sys.stderr)
    text = json.dumps(table.to_json(), indent=1) + "\n"
    if given.out is None:
        print(text, end="")
    else:
        given.out.write_text(text)
    return 0


def calibrate(name: str, threads: int) -> CostTable:
    """The cost table of this machine with the embedded model, with its error on a separate run."""
    bench = _Bench(threads)
    try:
        bench.prefill(PROMPTS[-1])  # warm-up
        prefill: dict[int, list[int]] = {tokens: [] for tokens in PROMPTS}
        decode: dict[tuple[int, int], list[int]] = {(rows, context): [] for rows in ROWS for context in CONTEXTS}
        checked: list[Launched] = []
        for _ in range(ROUNDS):  # in turns, since a busy machine drifts by 30 % in a minute
            for tokens, times in prefill.items():
                times += [bench.prefill(tokens) for _ in range(REPEATS)]
            for (rows, context), times in decode.items():
                times += bench.decode(rows, context)
            checked += bench.mixed(CHECKED)
    finally:
        bench.close()
    launch_ns = round(min(statistics.median(times) for times in (prefill[1], *decode.values())))
    table = CostTable(
        name=name,
        made_on=_here(bench, threads),
        launch_ns=launch_ns,
        prefill=tuple((tokens, round(statistics.median(times))) for tokens, times in prefill.items()),
        decode_rows=ROWS,
        decode_context=CONTEXTS,
        decode_ns=tuple(tuple(round(statistics.median(decode[rows, each])) for each in CONTEXTS) for rows in ROWS),
        jitter=_spread([*prefill.values(), *decode.values()]),
        error={},
    )
    return replace(table, error=errors(table, checked))


def errors(table: CostTable, launched: Sequence[Launched]) -> dict[str, float]:
    """Relative errors of a table on recorded launches: |error| of single launches at P50 and P90, and in total."""
    predicted = [table.launch_cost_ns(each.prompt_tokens, each.rows, each.context) for each in launched]
    off = sorted(abs(guess / each.took_ns - 1) for guess, each in zip(predicted, launched, strict=True))
    total = sum(predicted) / sum(each.took_ns for each in launched) - 1
    found = {"step_p50": off[len(off) // 2], "step_p90": off[len(off) * 9 // 10], "total": total}
    return {name: round(share, 4) for name, share in found.items()}


def _spread(groups: Sequence[Sequence[int]]) -> float:
    """Half the interquartile range divided by the median, as the median over all measured points."""
    spreads = []
    for times in groups:
        low, middle, high = statistics.quantiles(times, n=4)
        spreads.append((high - low) / middle / 2)
    return round(min(JITTER_MAX, statistics.median(spreads)), 3)


class _Bench:
    """The real engine, device and model, with the engine's turns made by this thread."""

    def __init__(self, threads: int) -> None:
        from runtime.build import build_served

        settings: dict[str, object] = {
            "kv_blocks": BLOCKS,
            "block_tokens": BLOCK_TOKENS,
            "token_budget": TOKEN_BUDGET,
            "seqs_max": ROWS[-1],
            "waiting_max": 1000,
            "late_s": 60.0,
            "hang_fatal_s": 600.0,
            "swap_blocks": 0,
            "prefix_cache": False,
            "faults": False,
            "threads": threads,
        }
        self._runtime = build_served(settings, Journal(None))
        self.model = self._runtime.model
        self._latest: Batch | None = None
        self._runtime.start(self, threaded=False, chain=lambda parts: (self, parts.eager))
        self._asked = 0

    def run(self, batch: Batch, step: int) -> None:
        """See StepExecutor: keeps the batch and leaves it to the engine's own executor."""
        self._latest = batch

    def completed(self, batch: Batch, ticket: Ticket) -> None:
        """See StepExecutor: does nothing."""

    def step(self, outputs: list[Output]) -> None:
        """See Sink: outputs are dropped."""

    def close(self) -> None:
        self._runtime.close()

    def prefill(self, tokens: int) -> int:
        """Time (ns) of one launch over a prompt of `tokens` tokens."""
        self._ask(tokens, 1)
        return next(iter(self._run())).took_ns

    def decode(self, rows: int, context: int) -> list[int]:
        """Times (ns) of launches of `rows` decode rows with about `context` tokens each."""
        # Requests that are prefilled first decode until the last one is prefilled.
        output = REPEATS + 2 + rows * context // TOKEN_BUDGET
        for _ in range(rows):
            self._ask(max(1, context - output // 2), output)
        full = [each.took_ns for each in self._run() if each.rows == rows and not each.prompt_tokens]
        return full[:REPEATS]

    def mixed(self, requests: int) -> list[Launched]:
        """The launches of one run of random requests that arrive four at a time."""
        chance = random.Random("calibrate/mixed")
        launched: list[Launched] = []
        for _ in range(requests // 4):
            for _ in range(4):
                self._ask(chance.randint(20, 400), chance.randint(4, 64))
            launched += self._run(turns_max=chance.randint(5, 40))
        return launched + self._run()

    def _ask(self, prompt: int, output: int) -> None:
        self._asked += 1
        name, now_ns = f"c{self._asked}", self._runtime.env.clock.now_ns()
        tokens = tuple(65 + (self._asked * 7 + at * 3) % 50 for at in range(prompt))
        assert self._runtime.mailbox.offer(Submit(name, tokens, output, Sampling(), now_ns, FOREVER_NS))

    def _run(self, turns_max: int = 1 << 30) -> list[Launched]:
        """Runs until all requests have ended or `turns_max` launches were made, and returns the launches that ended."""
        found: list[Launched] = []
        runtime = self._runtime
        runtime.turn()
        while self._latest is not None and len(found) < turns_max:
            shape, start_ns, steps = _shape(self._latest), time.monotonic_ns(), runtime.status.steps
            self._latest = None
            while runtime.status.flight_ns is not None and runtime.status.steps == steps:
                runtime.mailbox.wait(None)
                runtime.turn()
            found.append(Launched(*shape, took_ns=time.monotonic_ns() - start_ns))
        return found


def _shape(batch: Batch) -> tuple[int, int, int]:
    """Prompt tokens, decode rows, and the mean context of the decode rows of a batch that is in flight."""
    contexts = [row.request.computed + 1 for row in batch.rows if row.tokens == 1]
    prompts = batch.tokens - len(contexts)
    return prompts, len(contexts), sum(contexts) // len(contexts) if contexts else 0


def _here(bench: _Bench, threads: int) -> dict[str, str]:
    import torch

    named = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "cpu": named.group(1) if named is not None else platform.processor() or "unknown",
        "cores": str(len(os.sched_getaffinity(0))),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "device": "cpu",
        "model": bench.model,
        "threads": str(threads),
        "torch": str(torch.__version__),
    }


if __name__ == "__main__":
    sys.exit(main())
