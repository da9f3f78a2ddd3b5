"""One small trial in virtual time, in this process, with or without a planted bug, and what its judges said."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from assertions.verdict import Judged, State, Verdict
from harness.finalize import judge
from harness.options import RunOptions
from harness.plan.plan import make
from harness.prepare import prepare
from harness.provenance import Provenance
from harness.run import make_directory, new_run_id
from harness.trial.stop import Stop
from harness.virtual.drive import drive
from runtime.points import catalogue
from tests.planted.virtual.bugs import Bug

NIGHT = Path(__file__).parent / "night.toml"
HERE = Provenance("planted", None, False)


@dataclass(frozen=True)
class Trial:
    """What came of one run. `wall_s` is all of it: planning, driving, judging."""

    verdict: Verdict
    wall_s: float

    @property
    def failed(self) -> set[str]:
        """The judges that said FAIL."""
        return {judged.name for judged in self.verdict.judges if judged.state is State.FAIL}

    def judged(self, name: str) -> Judged:
        """One judge's words."""
        return next(judged for judged in self.verdict.judges if judged.name == name)

    def seen_s(self, name: str) -> float | None:
        """Virtual seconds from the start of the run to the first moment that this judge names."""
        judged = self.judged(name)
        moments = [each.t_ns for each in judged.evidence if each.t_ns is not None]
        moments += [judged.since_ns] if judged.since_ns is not None else []
        return min(moments) / 1e9 if moments else None


def run(scenario: str, seed: int | None = None) -> Trial:
    """Run a scenario to its verdict: the night, or a virtual one of the library. No report is written: nobody reads
    it."""
    began_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        options = RunOptions(str(NIGHT) if scenario == NIGHT.stem else scenario, Path(folder), seed=seed)
        document = prepare(options, catalogue())
        plan = make(document, catalogue(), new_run_id(), HERE)
        directory = make_directory(options, plan, document.source.text)
        drive(plan, [], directory, Stop(), lambda *seen: None, lambda line: None)
        verdict = judge(directory)
    return Trial(verdict, time.perf_counter() - began_s)


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """The runtime has this bug inside, and not after."""
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        yield
