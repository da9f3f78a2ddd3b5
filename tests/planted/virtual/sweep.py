"""No judge may cry wolf: the healthy runtime under many seeds of the scenarios in which the bugs are found.

    python -m tests.planted.virtual.sweep --seeds 200
    python -m tests.planted.virtual.sweep --seeds 100 --scenario night --jobs 16
    python -m tests.planted.virtual.sweep --seeds 60 --scenario pr-swap-storm

Under pressure (evictions, preemptions), with shared prefixes and clients that leave. Exits with 1 when a judge said
FAIL, or when a verdict is not PASS: UNKNOWN would make a bug invisible there.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from tests.planted.virtual.trial import run

SCENARIOS = ("pr-shared-prefix", "pr-recompute", "pr-burst")


@dataclass(frozen=True)
class Odd:
    """A clean run that did not pass."""

    scenario: str
    seed: int
    state: str
    failed: tuple[str, ...]
    words: tuple[str, ...]


def sweep(seeds: Iterable[int], scenarios: Iterable[str] = SCENARIOS) -> Iterator[Odd | None]:
    """One item a run; None for a run that passed."""
    for seed, scenario in itertools.product(seeds, scenarios):
        yield one(scenario, seed)


def one(scenario: str, seed: int) -> Odd | None:
    """One run; None when it passed."""
    verdict = run(scenario, seed).verdict
    state = str(verdict.state)
    told = [each for each in verdict.judges if each.state in ("FAIL", "UNKNOWN")]
    words = tuple(f"{each.name}: {each.summary}" for each in told)
    failed = tuple(each.name for each in told if each.state == "FAIL")
    return None if state == "PASS" and not failed else Odd(scenario, seed, state, failed, words)


def main(argv: list[str] | None = None) -> int:
    """Run the seeds, tell each odd one as it comes, and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--max-s", type=float, default=900.0, help="begin no run after so many wall seconds")
    parser.add_argument(
        "--scenario", action="append", help="may be given again; night, or a virtual one of the library"
    )
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    asked = parser.parse_args(argv)
    scenarios = tuple(asked.scenario or SCENARIOS)
    began_s, runs, odd = time.perf_counter(), 0, []
    planned = list(itertools.product(scenarios, range(asked.first, asked.first + asked.seeds)))
    for found in _in_turn(planned, asked.jobs):
        runs += 1
        if found is not None:
            odd.append(found)
            print(f"{found.state} {found.scenario} seed {found.seed}: {'; '.join(found.words)}", flush=True)
        if time.perf_counter() - began_s > asked.max_s:
            break
    took_s = time.perf_counter() - began_s
    failed = sum(bool(each.failed) for each in odd)
    print(f"{runs} of {len(planned)} clean runs in {took_s:.0f} s: {failed} with a FAIL, {len(odd)} not PASS")
    return 1 if odd or runs < len(planned) else 0


def _in_turn(planned: list[tuple[str, int]], jobs: int) -> Iterator[Odd | None]:
    """The results in the order of the plan. No further run begins once the caller has stopped."""
    if jobs == 1:
        yield from itertools.starmap(one, planned)
        return
    pool = ProcessPoolExecutor(jobs)
    try:
        yield from pool.map(one, *zip(*planned, strict=True))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


if __name__ == "__main__":
    sys.exit(main())
