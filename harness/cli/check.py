"""`seatrial check`: read scenarios and list every problem of each."""

import sys

from harness.exits import Exit
from harness.prepare import vocabulary
from runtime.points import catalogue
from scenarios import library
from scenarios.problems import ScenarioProblems
from scenarios.read import read


def check_all(scenarios: list[str]) -> int:
    """Print a line for each sound scenario, and the problems of the others to stderr."""
    known, code = vocabulary(catalogue()), Exit.PASS
    for name in scenarios:
        try:
            scenario = read(library.find(name), known)
        except ScenarioProblems as problems:
            print(problems.render(), file=sys.stderr)
            code = Exit.USAGE
        else:
            counts = (("load", scenario.load), ("fault", scenario.fault), ("check", scenario.check))
            held = ", ".join(f"{len(rows)} {word}{'' if len(rows) == 1 else 's'}" for word, rows in counts)
            print(f"ok  {name}: {held}")
    return code
