"""A day of recorded traffic in virtual time: how long it takes on one core, what a step and a request cost, and memory.

python -m benchmarks.virtual_soak [--hours 24 | --requests 1000000] [--data FOLDER] [--limit-s 180]

The path is the one of `seatrial run`: client model, server, engine, scheduler, paged pool with prefix cache, tags,
ledger and the history in SQLite; judging is left out. The load is `azure_llm_2023_conv.csv` (Azure Public Dataset,
CC-BY 4.0) at its own rate, lap after lap. It has no contents, so half of its prompts are given one of 200 beginnings
of 512 tokens, some of them far more often than others, and 5 % of its clients leave. The cost table is invented (its
file says so), the pool is short on purpose. On a busy machine read the CPU seconds.
"""

import argparse
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.options import RunOptions
from harness.plan.plan import make
from harness.prepare import prepare
from harness.provenance import Provenance
from harness.run import make_directory, new_run_id
from harness.trial.stop import Stop
from harness.virtual.drive import drive
from runtime.points import catalogue
from scenarios.traces import read_trace

TRACE = "azure_llm_2023_conv.csv"
COSTS = Path(__file__).with_name("virtual_soak_costs.json")
PREFIXES, PREFIX_TOKENS = 200, 512
"""512 is what one hash id of a trace stands for."""
LOOKS = 8
SCENARIO = """
schema = 1
name = "virtual-soak"
means = "the built-in runtime could not stand a day of recorded traffic"
drive = "virtual"
seed = {seed}
target = {{ knobs = {{ kv_blocks = {blocks}, block_tokens = 16, token_budget = 2048, seqs_max = 64, waiting_max = 512, expected_output = 0.4 }} }}
limits = {{ wall = "9000h", disk = "200GiB" }}

[phases]
warmup = {{ completed = 10, max = "2m" }}
baseline = "10s"
trial = "{trial_s}s"
recovery = "10s"
drain_max = "2m"

[[load]]
id = "conv"
arrivals = "trace"
trace = {{ file = "trace.jsonl", loop = true }}
in_flight_max = 1024
timeout = "10m"
cancel = [{{ share = 0.01, at = "queued" }}, {{ share = 0.01, at = "prefill" }}, {{ share = 0.03, at = "token 20" }}]
"""  # noqa: E501 - TOML's inline tables stay on one line


@dataclass
class Look:
    """The run at one moment. Memory in MiB: of now, and the most so far."""

    virtual_s: float
    wall_s: float
    cpu_s: float
    sent: int
    rss: float
    peak: float


@dataclass
class Looks:
    """Told by the trial at every turn, it looks a few times."""

    trial_s: float
    began_s: float = field(default_factory=time.perf_counter)
    taken: list[Look] = field(default_factory=list)
    world: Any = None

    def __call__(self, loop: Any, phase: Any, elapsed_s: float) -> None:
        self.world = loop.stats.world
        if phase.name == "trial" and elapsed_s >= self.trial_s * len(self.taken) / LOOKS:
            self.look()

    def look(self) -> None:
        """Take one now."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        wall_s = time.perf_counter() - self.began_s
        virtual_s, sent = self.world.time.now_ns() / 1e9, self.world.load.sent
        self.taken.append(Look(virtual_s, wall_s, time.process_time(), sent, rss_mib(), peak))


def rss_mib() -> float:
    """What this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def write_trace(data: Path, file: Path) -> float:
    """The recorded trace with beginnings for half of its prompts; returns its requests a second."""
    rng, last_s, rows = random.Random("prefixes"), 0.0, 0
    with file.open("w") as out:
        for row in read_trace(data / TRACE):
            hashes = f"[{int(PREFIXES * rng.random() ** 3)}]" if rng.random() < 0.5 else "[]"
            stamp_ms, last_s, rows = round(row.t_s * 1e3, 4), row.t_s, rows + 1
            out.write(
                f'{{"timestamp": {stamp_ms}, "input_length": {row.prompt_tokens}, '
                f'"output_length": {row.output_tokens}, "hash_ids": {hashes}}}\n'
            )
    return rows / last_s


def soak(folder: Path, trial_s: float, blocks: int, seed: int, say: Callable[[str], None]) -> tuple[Looks, Path]:
    """One run with its history in `folder`, where the trace lies."""
    scenario = folder / "soak.toml"
    scenario.write_text(SCENARIO.format(trial_s=round(trial_s), blocks=blocks, seed=seed))
    options = RunOptions(str(scenario), folder / "runs")
    document = prepare(options, catalogue())
    plan = make(document, catalogue(), new_run_id(), Provenance("benchmark", None, False))
    directory = make_directory(options, plan, document.source.text)
    looks = Looks(trial_s)
    with Stop() as stop:
        drive(plan, (), directory, stop, looks, say, costs=str(COSTS))
    looks.look()
    return looks, directory / "run.sqlite"


def report(looks: Looks, history: Path, cpu_s: float) -> None:
    """A small table for people."""
    world, last = looks.world, looks.taken[-1]
    marks, status = world.env.counters.total, world.engine.status
    print(f"{'virtual h':>10} {'wall s':>8} {'CPU s':>8} {'requests':>9} {'rss MiB':>8} {'peak MiB':>8}")
    for look in looks.taken:
        figures = f"{look.virtual_s / 3600:>10.2f} {look.wall_s:>8.1f} {look.cpu_s:>8.1f} {look.sent:>9}"
        print(f"{figures} {look.rss:>8.0f} {look.peak:>8.0f}")
    sent, skipped = max(1, last.sent), world.fast_forward.skipped
    ratio = last.virtual_s / last.wall_s
    print(f"{last.virtual_s:.0f} virtual s in {last.wall_s:.1f} s ({cpu_s:.1f} s CPU): {ratio:.0f} x")
    wall_us, cpu_us = last.wall_s / sent * 1e6, cpu_s / sent * 1e6
    print(f"{wall_us:.0f} us a request ({cpu_us:.0f} CPU), {cpu_s / max(1, status.steps) * 1e6:.1f} CPU us a step")
    print(f"{status.steps} steps, {skipped} of them skipped; {status.steps / sent:.1f} steps a request")
    print(f"{status.prompt_tokens} prompt tokens, {status.generation_tokens} generated")
    prefix = world.memory().prefix
    hit = 0.0 if prefix is None else prefix.hit_rate
    print(f"prefix hits {hit:.0%}; evicted blocks {marks['kv.evict']}, preemptions {marks['kv.preempt']}")
    print(f"history {history.stat().st_size / (1 << 20):.0f} MiB")


def main(argv: list[str] | None = None) -> int:
    """Exits with 1 when a limit was given and it took longer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=24.0, help="virtual hours of the trial")
    parser.add_argument("--requests", type=int, help="as many hours as bring about so many requests")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SEATRIAL_DATA", "../shared/data")))
    parser.add_argument("--blocks", type=int, default=1000, help="KV blocks of 16 tokens")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit-s", type=float, help="wall seconds that it may take")
    asked = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="virtual-soak-") as name:
        folder = Path(name)
        rate = write_trace(asked.data, folder / "trace.jsonl")
        trial_s = asked.hours * 3600 if asked.requests is None else asked.requests / rate
        cpu_s = time.process_time()
        looks, history = soak(folder, trial_s, asked.blocks, asked.seed, print)
        report(looks, history, time.process_time() - cpu_s)
    return 1 if asked.limit_s is not None and looks.taken[-1].wall_s > asked.limit_s else 0


if __name__ == "__main__":
    sys.exit(main())
