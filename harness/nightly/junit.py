"""junit.xml of a night: one suite for each trial, so that a CI server shows the same result as the night's page.

A detected control passes, although its run FAILs as planted. A control that was not detected is an error, and so are a
trial without a verdict and a scenario that was not run.
"""

from collections.abc import Iterator

from assertions.verdict import State
from harness.nightly.compare import Night, Row
from harness.nightly.controls import ControlResult
from harness.nightly.trial import Trial
from harness.report.junit import NO_VERDICT, Suite, document


def render(night: Night) -> str:
    """The document: controls first, then the scenarios in the order of the page."""
    suites = [*(_control(night, found) for found in night.controls), *(_scenario(night, row) for row in night.rows)]
    return document(f"seatrial nightly {night.night}", suites)


def _control(night: Night, found: ControlResult) -> Suite:
    suite = Suite(found.control.name, [("planted", found.control.planted), *_properties(night, found.trial)])
    suite.case("seen", "passed" if found.seen else "error", State.UNKNOWN, f"not detected: {found.text}")
    return _closed(suite, found.trial)


def _scenario(night: Night, row: Row) -> Suite:
    suite = Suite(row.scenario, _properties(night, row.trial))
    for said in row.trial.judges if row.trial is not None else ():
        suite.judged(said)
    if row.state is State.FAIL and "failure" not in suite.kinds:
        suite.case(NO_VERDICT, "failure", State.FAIL, row.text)
    if row.state in (State.UNKNOWN, None) and "error" not in suite.kinds:
        suite.case(NO_VERDICT, "error", State.UNKNOWN, row.text)
    return _closed(suite, row.trial)


def _properties(night: Night, trial: Trial | None) -> Iterator[tuple[str, object]]:
    yield "night", night.night
    yield "host class", night.host_class
    if trial is None:
        return
    dirty = " (dirty)" if trial.dirty else ""
    words = (
        ("run", trial.run_id),
        ("seed", trial.seed),
        ("commit", trial.commit and trial.commit + dirty),
        ("drive", trial.drive),
        ("verdict", trial.state),
        ("exit", trial.exit),
        ("means", trial.means),
        ("replay", trial.replay),
    )
    yield from ((name, value) for name, value in words if value is not None)


def _closed(suite: Suite, trial: Trial | None) -> Suite:
    suite.close(trial.wall_s if trial is not None else 0.0, trial.started if trial is not None else None)
    return suite
