"""All machines with their mutants, and the table: machine, mutant, killed after how many steps, by which check.

python -m tests.mutants [seeds]      with the seed of CI, and the worst of so many more
"""

import sys
from collections.abc import Iterator
from itertools import chain

from tests.mutants import (
    of_device,
    of_engine,
    of_faults,
    of_kv_figures,
    of_ledger,
    of_paged,
    of_scheduler,
    of_span_pools,
)
from tests.mutants.mutant import Killed, Mutant, Subject, Survived, kill, passes

FILES = (of_span_pools, of_paged, of_kv_figures, of_ledger, of_scheduler, of_engine, of_faults, of_device)
SUBJECTS: tuple[Subject, ...] = tuple(chain.from_iterable(file.SUBJECTS for file in FILES))


def lines(seeds: int) -> Iterator[str]:
    """One for each machine as it is, and one for each of its mutants."""
    survivors = 0
    for subject in SUBJECTS:
        explored = passes(subject)
        yield f"\n{subject.machine.__name__}: passes in {explored.runs} runs, {explored.steps:,} steps"
        for mutant in subject.mutants:
            kills = [_try(subject, mutant, of_seed) for of_seed in (None, *range(seeds))]
            survivors += kills.count(None)
            yield _line(mutant, kills)
    mutants = sum(len(subject.mutants) for subject in SUBJECTS)
    yield f"\n{len(SUBJECTS)} machines, {mutants} mutants, {1 + seeds} seeds each: {survivors} survived"


def main() -> int:
    """Print it; 1 when a mutant survived."""
    last = ""
    for last in lines(int(sys.argv[1]) if len(sys.argv) > 1 else 0):
        print(last, flush=True)
    return 0 if last.endswith(": 0 survived") else 1


def _try(subject: Subject, mutant: Mutant, of_seed: int | None) -> Killed | None:
    try:
        return kill(subject, mutant, of_seed)
    except Survived:
        return None


def _line(mutant: Mutant, kills: list[Killed | None]) -> str:
    first, others = kills[0], [one.steps for one in kills if one is not None]
    told = "SURVIVED" if first is None else f"{first.steps:>5,} steps  {first.by}"
    worst = f"  (up to {max(others):,}; {kills.count(None)} survived)" if len(kills) > 1 and others else ""
    return f"  {mutant.what:<52} {told}{worst}"
