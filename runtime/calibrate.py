"""Measures what launches cost on the CPU runtime of this machine, as a table for virtual runs.

    seatrial calibrate [--out FILE]          python -m runtime.calibrate [--out FILE]

    grid      prompts of several lengths, and decode batches of several sizes and contexts, each some times: medians
    check     one run of the engine with arrivals of its own; each of its launches is predicted from the table

The time of a launch is from one turn of the engine to the next, so scheduler, tags and the engine's thread are in it.
"""

import argparse
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from faults import NullFaults
from runtime.core.edge import Mailbox, Output, Submit
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.core.ports import Device, Ticket
from runtime.core.work import Claim, Copy, Sampling, Work
from runtime.device.costs import CostTable
from runtime.engine import Engine
from runtime.guard.watchdog import Bounds
from runtime.memory.kv.paged import PagedPool
from runtime.scheduling.scheduler import Limits

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
    """One launch of the engine, and its time up to the next turn."""

    prompt_tokens: int
    rows: int
    context: int
    """Mean over the decode rows."""
    took_ns: int


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, say it, and write the table."""
    parser = argparse.ArgumentParser(prog="seatrial calibrate", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, help="the table's file; without it the table is printed")
    parser.add_argument("--name", default="cpu", help="what virtual reports call it")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
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
    """A table of this machine with the embedded model, and its error on a run that it was not made from."""
    bench = _Bench(threads)
    try:
        bench.prefill(PROMPTS[-1])  # the first launches pay for what is set up once
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
    """How far a table is off on recorded launches, as shares: |error| of single ones at P50 and P90, and in total."""
    predicted = [table.launch_cost_ns(each.prompt_tokens, each.rows, each.context) for each in launched]
    off = sorted(abs(guess / each.took_ns - 1) for guess, each in zip(predicted, launched, strict=True))
    total = sum(predicted) / sum(each.took_ns for each in launched) - 1
    found = {"step_p50": off[len(off) // 2], "step_p90": off[len(off) * 9 // 10], "total": total}
    return {name: round(share, 4) for name, share in found.items()}


def _spread(groups: Sequence[Sequence[int]]) -> float:
    """Half of what lies between the quartiles, over the median: the middle of all measured points."""
    spreads = []
    for times in groups:
        low, middle, high = statistics.quantiles(times, n=4)
        spreads.append((high - low) / middle / 2)
    return round(min(JITTER_MAX, statistics.median(spreads)), 3)


class _Bench:
    """The real engine, device and model, stepped from this thread."""

    def __init__(self, threads: int) -> None:
        from runtime.build import WallClock
        from runtime.device.cpu import CpuDevice
        from runtime.device.threads import compute_alone
        from runtime.models.config import read_config
        from runtime.models.decoder import Decoder
        from runtime.models.default import default_model
        from runtime.models.kv import PagedKv
        from runtime.models.loader import load_weights
        from runtime.models.runner import ModelRunner

        compute_alone()
        directory = default_model()
        config = read_config(directory)
        self.model = directory.name
        self.context_max = config.context_max
        self.mailbox = Mailbox(1000)
        self.env = Env(WallClock(), 0, NullFaults(), Ledger(self.mailbox.wake))
        pool = PagedPool(self.env, BLOCKS, BLOCK_TOKENS)
        model = ModelRunner(Decoder(config, load_weights(directory, config)), PagedKv(config, BLOCKS, BLOCK_TOKENS))
        self._device = CpuDevice({"": model}, pool.plane, self.env, threads=threads)
        self._seen = _Seen(self._device)
        self._engine = Engine(
            self.env, self._seen, pool, self, self.mailbox, Limits(TOKEN_BUDGET, ROWS[-1], 1000), Bounds(60.0, 600.0)
        )
        self._asked = 0

    def step(self, outputs: list[Output]) -> None:
        """A sink that nobody listens to."""

    def close(self) -> None:
        self._device.close()

    def prefill(self, tokens: int) -> int:
        """Nanoseconds of one launch over a prompt of so many tokens."""
        self._ask(tokens, 1)
        return next(iter(self._run())).took_ns

    def decode(self, rows: int, context: int) -> list[int]:
        """Nanoseconds of launches of so many decode rows near `context`."""
        # Those whose prompt is in first go on until the last one's is in.
        output = REPEATS + 2 + rows * context // TOKEN_BUDGET
        for _ in range(rows):
            self._ask(max(1, context - output // 2), output)
        full = [each.took_ns for each in self._run() if each.rows == rows and not each.prompt_tokens]
        return full[:REPEATS]

    def mixed(self, requests: int) -> list[Launched]:
        """Launches of one run of random requests that come a few at a time."""
        chance = random.Random("calibrate/mixed")
        launched: list[Launched] = []
        for _ in range(requests // 4):
            for _ in range(4):
                self._ask(chance.randint(20, 400), chance.randint(4, 64))
            launched += self._run(turns_max=chance.randint(5, 40))
        return launched + self._run()

    def _ask(self, prompt: int, output: int) -> None:
        self._asked += 1
        name, now_ns = f"c{self._asked}", self.env.clock.now_ns()
        tokens = tuple(65 + (self._asked * 7 + at * 3) % 50 for at in range(prompt))
        assert self.mailbox.offer(Submit(name, tokens, output, Sampling(), now_ns, FOREVER_NS))

    def _run(self, turns_max: int = 1 << 30) -> list[Launched]:
        """Until all have ended or so many launches were made; the launch in flight then is not among them."""
        found: list[Launched] = []
        self._engine.step()
        while self._seen.work is not None and len(found) < turns_max:
            work, start_ns = self._seen.work, time.monotonic_ns()
            steps = self._engine.status.steps
            self._seen.work = None
            while self._engine.status.flight_ns is not None and self._engine.status.steps == steps:
                self.mailbox.wait(None)
                self._engine.step()
            found.append(_launched(work, time.monotonic_ns() - start_ns))
        return found


class _Seen:
    """A device that remembers its latest work."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.work: Work | None = None

    def launch(self, work: Work, reads: Sequence[Claim], writes: Sequence[int]) -> Ticket:
        self.work = work
        return self._device.launch(work, reads, writes)

    def copy(self, copy: Copy) -> Ticket:
        return self._device.copy(copy)

    def close(self) -> None:
        self._device.close()


def _launched(work: Work, took_ns: int) -> Launched:
    lengths = [int(end - start) for start, end in zip(work.row_starts[:-1], work.row_starts[1:], strict=True)]
    contexts = [int(context) for context, length in zip(work.context_lens, lengths, strict=True) if length == 1]
    prompts = sum(length for length in lengths if length > 1)
    return Launched(prompts, len(contexts), sum(contexts) // len(contexts) if contexts else 0, took_ns)


def _here(bench: _Bench, threads: int) -> dict[str, str]:
    import torch

    cpu = next(_cpu_names(), platform.processor() or "unknown")
    return {
        "cpu": cpu,
        "cores": str(len(os.sched_getaffinity(0))),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "device": "cpu",
        "model": bench.model,
        "threads": str(threads),
        "torch": str(torch.__version__),
    }


def _cpu_names() -> Iterator[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            yield line.partition(":")[2].strip()


if __name__ == "__main__":
    sys.exit(main())
