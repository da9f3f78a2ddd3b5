"""How often the statistical judges are wrong, and what they see: PASS / UNKNOWN / FAIL in % of simulated runs.

    python -m benchmarks.verdict_power [--runs 200] [--hours 0.5 2 8 24] [--budget 4] [--markdown FILE]

Growth: the code of the judge (`assertions.trend`) decides on simulated series (`benchmarks.verdict_series`); the budget
and the excess over it are 4 SD of the noise over the whole trial. Other tests of growth decide on the same series where
the growth is a line. Quantiles: requests that are slow in streaks, against a limit that 1 % of them may break.

The constants of `assertions.trend` were chosen on seeds below 100 and on fewer shapes; the default seed was not looked
at before.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from assertions import stats
from assertions.rows import Floats
from assertions.trend.growth import growths_of
from assertions.trend.sub_blocks import SubBlocks
from assertions.verdict import State
from benchmarks.verdict_peers import PEERS
from benchmarks.verdict_series import NOISES, SHAPES, blocks_of, curves, noise

SEED = 4242
STATES = (State.PASS, State.UNKNOWN, State.FAIL)
LINES = ("clean", "line at the budget", "line, excess")
Rates = tuple[float, float, float]
"""The shares of PASS, UNKNOWN and FAIL."""


def growth_rates(
    shape_name: str, noise_name: str, hours: float, runs: int, seed: int, *, budget: float = 4.0, windows: bool = False
) -> Rates:
    """The rates of the trend judges for one shape under one noise."""
    blocks, values = _series(shape_name, noise_name, hours, runs, seed, budget, windows)
    return rates_of([found.against(budget)[0] for found in growths_of(blocks, values)])


def peer_rates(peer: str, shape_name: str, noise_name: str, hours: float, runs: int, seed: int) -> Rates:
    """The rates of another test on the same series."""
    blocks, values = _series(shape_name, noise_name, hours, runs, seed, 4.0, windows=False)
    bounds = [PEERS[peer](blocks.part, values[:, run]) for run in range(runs)]
    return rates_of([between(low, high, 4.0) for low, high in bounds])


def quantile_rates(n: int, over_share: float, quantile: float, correlation: float, runs: int, seed: int) -> Rates:
    """The rates of a quantile check on n requests, of which `over_share` lies above the limit, in streaks."""
    from scipy.special import ndtri

    rng = np.random.default_rng(seed)
    shocks = rng.standard_normal((n, runs))
    for step in range(1, n):
        shocks[step] = correlation * shocks[step - 1] + np.sqrt(1 - correlation**2) * shocks[step]
    over = (shocks > float(ndtri(1 - over_share))).sum(axis=0)
    allowed, tolerated = stats.over_allowed(n, quantile), stats.over_tolerated(n, quantile)
    passed, failed = float(np.mean(over <= allowed)), float(np.mean(over > tolerated))
    return passed, 1 - passed - failed, failed


def _series(
    shape_name: str, noise_name: str, hours: float, runs: int, seed: int, budget: float, windows: bool
) -> tuple[SubBlocks, Floats]:
    shape = next(each for each in SHAPES if each.name == shape_name)
    blocks = blocks_of(hours, shape, windows)
    kept = blocks.at.astype(np.int64)
    return blocks, noise(noise_name, hours, runs, seed)[kept] + curves(shape, blocks, runs, budget, 4.0, seed)


def between(low: float, high: float, budget: float) -> State:
    """The state of a check whose value has these bounds."""
    return State.FAIL if low > budget else State.PASS if high < budget else State.UNKNOWN


def rates_of(states: Sequence[State]) -> Rates:
    """The shares of the three states."""
    passed, unknown, failed = (states.count(each) / len(states) for each in STATES)
    return passed, unknown, failed


def tables(runs: int, hours: Sequence[float], budget: float, seed: int) -> Iterator[str]:
    """The lines of all tables, in Markdown."""
    shapes = [(shape.name, shape.kind) for shape in SHAPES]
    for each in hours:
        told = partial(growth_rates, hours=each, runs=runs, seed=seed, budget=budget)
        yield from _table(f"Growth over {each:g} h", shapes, told)
    told = partial(growth_rates, hours=8.0, runs=runs, seed=seed, budget=budget, windows=True)
    yield from _table("Growth over 8 h with three fault windows left out", shapes, told)
    for peer in PEERS:
        told = partial(peer_rates, peer, hours=8.0, runs=runs, seed=seed)
        yield from _table(f"Growth over 8 h, judged by {peer}", [(name, "") for name in LINES], told)
    yield "### P99 against a limit: requests, share above it, and how far slow ones come in streaks"
    yield ""
    yield "| requests | above | independent | AR .9 |"
    yield "|---|---|---|---|"
    for n in (662, 2010, 10_000):
        for share in (0.001, 0.005, 0.01, 0.02, 0.05):
            cells = [cell(quantile_rates(n, share, 0.99, correlation, runs, seed)) for correlation in (0.0, 0.9)]
            yield f"| {n} | {share:.1%} | {' | '.join(cells)} |"


def _table(title: str, rows: Sequence[tuple[str, str]], rates: Callable[[str, str], Rates]) -> Iterator[str]:
    yield f"### {title}"
    yield ""
    yield f"| shape | | {' | '.join(NOISES)} |"
    yield "|---|---|" + "---|" * len(NOISES)
    for name, kind in rows:
        yield f"| {name} | {kind} | {' | '.join(cell(rates(name, each)) for each in NOISES)} |"
    yield ""


def cell(rates: Rates) -> str:
    """PASS/UNKNOWN/FAIL in whole percent."""
    return "/".join(f"{100 * each:.0f}" for each in rates)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, or write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="simulated runs a cell")
    parser.add_argument("--hours", type=float, nargs="+", default=[0.5, 2.0, 8.0, 24.0])
    parser.add_argument("--budget", type=float, default=4.0, help="growth over the trial, in SD of the noise")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--markdown", type=Path, help="write the tables to this file")
    asked = parser.parse_args(arguments)
    told = tables(asked.runs, asked.hours, asked.budget, asked.seed)
    if asked.markdown is None:
        for line in told:
            print(line, flush=True)
    else:
        command = f"python -m benchmarks.verdict_power --runs {asked.runs} --seed {asked.seed}"
        asked.markdown.write_text(
            "\n".join([f"PASS/UNKNOWN/FAIL in % of {asked.runs} runs: `{command}`", "", *told, ""])
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
