"""The last lines of a test run: how far each stateful machine went.

    worker: each machine's test --> its totals --> workeroutput     controller: sums --> one line a machine

A machine whose steps nobody counts fails: the figure would leave it out in silence.
"""

from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

from tests.steps import CountedMachine, counting

KEY = "steps_explored"


class StepsReport:
    """A pytest plugin, one a process. All it knows is kept here."""

    def __init__(self) -> None:
        self._runs: Counter[str] = Counter()
        self._steps: Counter[str] = Counter()
        self._lost = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Count while a machine's test runs."""
        machine = machine_of(item)
        if machine is None:
            return (yield)
        if not issubclass(machine, CountedMachine):
            pytest.fail(f"{machine.__name__}: nobody counts its steps; derive it from tests.steps.CountedMachine")
        with counting(machine) as explored:
            try:
                return (yield)
            finally:
                self._add(name_of(machine), explored.runs, explored.steps)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker hands over what it has counted."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[KEY] = {name: (self._runs[name], self._steps[name]) for name in self._runs}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """The controller adds it up. A worker that died has said nothing."""
        counted = getattr(node, "workeroutput", {}).get(KEY)
        self._lost |= counted is None
        for name, (runs, steps) in (counted or {}).items():
            self._add(name, runs, steps)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Nothing is said where no machine ran."""
        if not self._runs:
            return
        terminalreporter.section("steps explored by stateful machines")
        width = max(map(len, self._runs))
        for name in sorted(self._runs):
            terminalreporter.line(f"{name:{width}}  {self._runs[name]:>7,} runs  {self._steps[name]:>9,} steps")
        total = f"{self._runs.total():>7,} runs  {self._steps.total():>9,} steps"
        terminalreporter.line(f"{'all':{width}}  {total}{', at least: a worker died' if self._lost else ''}")

    def _add(self, name: str, runs: int, steps: int) -> None:
        self._runs[name] += runs
        self._steps[name] += steps


def machine_of(item: pytest.Item) -> type | None:
    """The state machine that `item` runs; None for any other test. Hypothesis leaves it on the test's function."""
    return getattr(getattr(item, "obj", None), "_hypothesis_state_machine_class", None)


def name_of(machine: type) -> str:
    """Where it is and what it is called; two in different files may have one name."""
    return f"{machine.__module__.removeprefix('tests.')}.{machine.__name__}"
