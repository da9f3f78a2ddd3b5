"""`seatrial check` and `seatrial plan`: validate scenarios and show the plan of a run, without starting anything."""

import json
import sys

from harness.costs import cost_table
from harness.discovery import discover
from harness.exits import Exit
from harness.options import RunOptions
from harness.plan.describe import describe
from harness.plan.plan import make
from harness.prepare import prepare, vocabulary
from harness.provenance import provenance
from runtime.points import catalogue
from scenarios import library
from scenarios.problems import ScenarioProblems
from scenarios.read import read

RUN_ID = "planned"


def check_all(names: list[str]) -> int:
    """Print one line for each valid scenario and every problem of an invalid one. Returns 4 if any is invalid."""
    known, code = vocabulary(catalogue()), Exit.PASS
    for name in names:
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


def show_plan(options: RunOptions, *, as_json: bool) -> int:
    known = catalogue()
    document, found = discover(prepare(options, known))
    table = cost_table(options.costs, document.scenario.drive)
    plan = make(document, known, RUN_ID, provenance())
    if as_json:
        print(json.dumps(plan.to_json(), indent=1))
    else:
        print("\n".join([*found, *describe(plan, table.words() if table is not None else None)]))
    return Exit.PASS
