"""Path coverage: which paths of the built-in runtime (runtime/counters.py) each scenario of the library takes.

A trial in virtual time is run for each virtual scenario; its table `mark` says how often a path was taken.
"""

import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path

from harness.options import RunOptions
from harness.plan.plan import make
from harness.prepare import prepare
from harness.provenance import provenance
from harness.run import make_directory, new_run_id
from harness.trial.stop import Stop
from harness.virtual.drive import drive
from runtime.counters import COUNTERS, LIVE_ONLY
from runtime.points import catalogue
from scenarios import library
from scenarios.read import read_text


def virtual_scenarios() -> list[str]:
    """The library scenarios that say `drive = "virtual"`."""
    return [name for name in library.names() if read_text(library.find(name).read_text()).scenario.drive == "virtual"]


def taken(scenario: str) -> Counter[str]:
    """How often each path was taken in one virtual run of `scenario`."""
    with tempfile.TemporaryDirectory(prefix="seatrial-coverage-") as folder, Stop() as stop:
        options = RunOptions(scenario, Path(folder))
        document = prepare(options, catalogue())
        plan = make(document, catalogue(), new_run_id(), provenance())
        directory = make_directory(options, plan, document.source.text)
        drive(plan, (), directory, stop, lambda *seen: None, lambda line: None)
        with closing(sqlite3.connect(f"file:{directory / 'run.sqlite'}?mode=ro", uri=True)) as history:
            return Counter(dict(history.execute("SELECT name, sum(n) FROM mark GROUP BY name")))


def coverage(scenarios: Iterable[str], began: Callable[[str], None]) -> dict[str, Counter[str]]:
    """Run each scenario; `began` is called with its name before it runs."""
    found = {}
    for name in scenarios:
        began(name)
        found[name] = taken(name)
    return found


def holes(found: Mapping[str, Counter[str]]) -> list[str]:
    """The paths that virtual time has and no scenario takes."""
    return [name for name in COUNTERS if name not in LIVE_ONLY and not any(marks[name] for marks in found.values())]
