"""What a fault point costs while nothing is armed, in nanoseconds and as a share of a decode step.

    python benchmarks/points_off.py --step-us 4000
    python benchmarks/points_off.py --step-measured                            embedded model, 8 rows, 1 torch thread
    python benchmarks/points_off.py --history runs/<date>_<id>/run.sqlite      median step of a recorded run

Each way to write the point is unrolled into a loop of its own; the same loop without it is taken off. Rounds go
A B C ... A B C ..., so a slow minute of the machine falls on all alike; the median of the rounds is printed with the
middle half of them. Exit 1 when the way we write it (`env.faults.armed`) is over `--limit-ns`.
"""

import argparse
import gc
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults import Catalogue, DisabledFaults, Faults, FaultSpec, Point, Scope, When, actions, parse_do
from faults.points import shows

UNROLLED = 20
ROWS, CONTEXT, BLOCK_TOKENS = 8, 128, 16  # of the decode step that --step-measured times
FIRE = 'fire(POINT, key="r1", size_bytes=4096, group="chat", phase="decode")'


@dataclass(frozen=True)
class Way:
    """One way to write a point: `statement` is run with the names of `Surroundings`."""

    name: str
    statement: str
    everywhere: bool = True  # False: only the point that is armed costs this, so no share of a step is given


OURS = Way("if env.faults.armed: fire", f"if env.faults.armed: env.faults.{FIRE}")
BARE = Way("bare guard: if flag.on: pass", "if flag.on: pass")
ALWAYS = Way("always call a no-op fire", f"null.{FIRE}")
WAYS = (
    OURS,
    Way("  of self._env (in a method)", f"if self._env.faults.armed: self._env.faults.{FIRE}"),
    Way("  of a module's global", f"if GLOBAL.armed: GLOBAL.{FIRE}"),
    Way("  of a local", f"if faults.armed: faults.{FIRE}"),
    Way("  with DisabledFaults", f"if env_null.faults.armed: env_null.faults.{FIRE}"),
    Way("  inside a helper, called always", "self.cross()"),
    BARE,
    ALWAYS,
    Way("armed, but another point", f"if env_elsewhere.faults.armed: env_elsewhere.faults.{FIRE}"),
    Way("armed here, other group", f"if env_here.faults.armed: env_here.faults.{FIRE}", everywhere=False),
)


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    rounds = measure(WAYS, options.rounds, options.loops)
    step_us, whence = _step_us(options)
    bare_ns, always_ns = statistics.median(rounds[BARE]), statistics.median(rounds[ALWAYS])
    print(f"python {sys.version.split()[0]}, {options.rounds} rounds of {options.loops} x {UNROLLED} crossings")
    share_title = f"{options.crossings} a step" if step_us else ""
    print(f"{'':34}{'ns':>8}{'middle half':>17}{'x bare':>9}{'x no-op':>9}{share_title:>13}")
    for way in WAYS:
        ns = statistics.median(rounds[way])
        low, _, high = statistics.quantiles(rounds[way], n=4)
        share = f"{ns * options.crossings / (step_us * 1000):.4%}" if step_us and way.everywhere else ""
        ratios = f"{ns / bare_ns:9.2f}{ns / always_ns:9.3f}"
        print(f"{way.name:34}{ns:8.1f}{f'{low:.1f}..{high:.1f}':>17}{ratios}{share:>13}")
    print(f"step: {step_us:g} us, {whence}" if step_us else "step: not known; give --step-us or --history for shares")
    ours_ns = statistics.median(rounds[OURS])
    verdict = "within" if ours_ns <= options.limit_ns else "OVER"
    print(f"off: {ours_ns:.1f} ns, {verdict} the limit of {options.limit_ns:g} ns")
    return 0 if ours_ns <= options.limit_ns else 1


def measure(ways: tuple[Way, ...], rounds: int, loops: int) -> dict[Way, list[float]]:
    """ns for each crossing, one figure a round; the empty loop of the same round is taken off."""
    empty = _loop("pass")
    loops_of = {way: _loop(way.statement) for way in ways}
    for loop in (empty, *loops_of.values()):
        loop(loops)  # warm: the interpreter specialises by use
    figures: dict[Way, list[float]] = {way: [] for way in ways}
    gc.disable()
    try:
        for _ in range(rounds):
            empty_ns = empty(loops)
            for way, loop in loops_of.items():
                figures[way].append((loop(loops) - empty_ns) / (loops * UNROLLED))
    finally:
        gc.enable()
    return figures


def _loop(statement: str) -> Callable[[int], int]:
    """A function that runs the statement loops x UNROLLED times and gives the nanoseconds it took."""
    names = _surroundings()
    # Locals, as a layer has them; GLOBAL and POINT are looked up as module names.
    local = [name for name in names if not name.isupper()]
    lines = [
        f"def loop(loops, {', '.join(f'{name}={name}' for name in local)}):",
        "    begin = clock()",
        "    for _ in range(loops):",
        *[f"        {statement}"] * UNROLLED,
        "    return clock() - begin",
    ]
    names["clock"] = time.perf_counter_ns
    exec(compile("\n".join(lines), "<loop>", "exec"), names)
    made: Callable[[int], int] = names["loop"]  # type: ignore[assignment]
    return made


class Env:
    def __init__(self, faults: Faults | DisabledFaults) -> None:
        self.faults = faults


class Flag:
    def __init__(self) -> None:
        self.on = False


class Layer:
    def __init__(self, env: Env, point: Point) -> None:
        self._env, self._point = env, point

    def cross(self) -> object:
        faults = self._env.faults
        if not faults.armed:
            return None
        return faults.fire(self._point, key="r1", size_bytes=4096, group="chat", phase="decode")


def _surroundings() -> dict[str, object]:
    drop = (actions.drop(),)
    scope = (shows("group", "phase"),)
    here = Point(name="kv.take", layer="bench", breaks="nothing", actions=drop, scope=scope)
    elsewhere = Point(name="server.stream", layer="bench", breaks="nothing", actions=drop, scope=scope)
    catalogue = Catalogue([here, elsewhere])

    def faults(*specs: FaultSpec) -> Faults:
        made = Faults(catalogue, time.monotonic_ns, lambda fire: None, lambda state: None)
        if specs:
            made.arm(specs)
        return made

    batch = Scope(group="batch")
    off = faults()
    return {
        "POINT": here,
        "GLOBAL": off,
        "faults": off,
        "null": DisabledFaults(),
        "flag": Flag(),
        "env": Env(off),
        "env_null": Env(DisabledFaults()),
        "env_elsewhere": Env(faults(FaultSpec("e", 0, parse_do("server.stream: drop"), when=When(times=None)))),
        "env_here": Env(faults(FaultSpec("h", 0, parse_do("kv.take: drop"), scope=batch))),
        "self": Layer(Env(off), here),
    }


def _step_us(options: argparse.Namespace) -> tuple[float | None, str]:
    if options.step_us is not None:
        return options.step_us, "as given"
    if options.step_measured:
        return (
            measured_step_us(),
            f"measured: embedded model, {ROWS} rows of {CONTEXT} tokens, 1 thread, no engine",
        )
    if options.history is None:
        return None, ""
    with closing(sqlite3.connect(f"file:{options.history}?mode=ro", uri=True)) as history:
        durations_ns = [row[0] for row in history.execute("SELECT dur_ns FROM step WHERE dur_ns IS NOT NULL")]
    if not durations_ns:
        sys.exit(f"{options.history} has no rows in table step; record steps on demand, or give --step-us")
    return statistics.median(durations_ns) / 1000, f"median of {len(durations_ns)} steps in {options.history}"


def measured_step_us(steps: int = 50) -> float:
    """Median duration of one decode launch of the embedded model, without the engine round it."""
    import numpy as np
    import torch

    from runtime.core.work import Sampling, Work
    from runtime.models.config import read_config
    from runtime.models.decoder import Decoder
    from runtime.models.default import default_model
    from runtime.models.kv import PagedKv
    from runtime.models.loader import load_weights
    from runtime.models.runner import ModelRunner

    torch.set_num_threads(1)
    config = read_config(default_model())
    blocks_each = CONTEXT // BLOCK_TOKENS
    decoder = Decoder(config, load_weights(default_model(), config))
    model = ModelRunner(decoder, PagedKv(config, ROWS * blocks_each, BLOCK_TOKENS))
    work = Work(
        step=0,
        model_key="",
        request_ids=tuple(f"r{row}" for row in range(ROWS)),
        token_ids=np.full(ROWS, 65),
        positions=np.full(ROWS, CONTEXT - 1),
        slots=np.arange(1, ROWS + 1) * CONTEXT - 1,
        row_starts=np.arange(ROWS + 1),
        context_lens=np.full(ROWS, CONTEXT),
        block_tables=np.arange(ROWS * blocks_each).reshape(ROWS, -1),
        sampling=(Sampling(),) * ROWS,
        prefix_hashes=np.zeros(ROWS, np.uint64),
    )
    durations_us = []
    for _ in range(steps + 5):
        begin_ns = time.perf_counter_ns()
        model.run(work)
        durations_us.append((time.perf_counter_ns() - begin_ns) / 1000)
    return statistics.median(durations_us[5:])  # the first few fill caches


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What a fault point costs while nothing is armed.")
    parser.add_argument("--step-us", type=float, help="duration of a decode step, microseconds")
    parser.add_argument("--step-measured", action="store_true", help="time the embedded model instead; needs torch")
    parser.add_argument("--history", type=Path, help="run.sqlite with a table step, instead of --step-us")
    parser.add_argument("--crossings", type=int, default=40, help="points crossed in a step (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--loops", type=int, default=5000)
    parser.add_argument("--limit-ns", type=float, default=20.0)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
