"""Compare tonight's trials with those of past nights, for one host class. Pure: trials in, one model out.

    night   -4    -3    -2    -1   tonight
    state  PASS  FAIL  FAIL  FAIL   FAIL      4th night in a row; last green: the commit of night -4
    p99    4.0   4.1   4.0   4.1    4.9       last 4.1, median of the nights before 4.05, ratio 1.21: it moved

If a scenario ran several times in one night, the last trial counts.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assertions.verdict import EXIT_CODES, Judged, State
from harness.exits import Exit
from harness.nightly.controls import ControlResult
from harness.nightly.trial import Scalar, Trial, scalars
from harness.report.figures import commit

MEDIAN_NIGHTS = 14
MOVED_RATIO = 1.1
"""A figure whose ratio to its median is above this, or below its inverse, is reported as moved."""
MOVED_RATIOS = {"wall_s": 1.5, "per_hour": 2.0, "rss_per_1000_completions": 2.0, "rss_per_1000_cancels": 2.0}
"""Bounds that replace MOVED_RATIO for figures that vary much between runs on one machine."""
MOVED_SHARE = 0.02
"""A share is reported as moved when it differs by this much: shares may be near 0, where a ratio means nothing."""
TREND_NIGHTS = 30
NIGHTS_READ = 60
"""Streaks are counted over at most this many nights."""
SHOWN_LATENCY = ("trial.ttft_p50_s", "trial.ttft_p99_s", "trial.e2e_p50_s", "trial.e2e_p99_s")
SHOWN_FIGURES = (
    "value",
    "share",
    "per_hour",
    "excess",
    "recovery_max_s",
    "rss_per_1000_completions",
    "rss_per_1000_cancels",
)
WORST_FIRST = (State.FAIL, State.UNKNOWN, None, State.PASS)


@dataclass(frozen=True)
class Figure:
    """One number of one scenario. `last` is from the previous night, `median` from up to 14 past nights."""

    scenario: str
    metric: str
    unit: str | None
    tonight: float
    last: float | None
    median: float | None
    nights: int
    """Number of those 14 nights that have this figure."""
    ratio: float | None
    """tonight / median. None without past nights, and unless both are above 0."""
    past: tuple[float, ...]
    """Values of up to 30 past nights, oldest first."""

    @property
    def moved(self) -> bool:
        """True when the figure changed so much that it is reported, also if it breaks no limit."""
        if self.median is None:
            return False
        if self.unit == "share":
            return abs(self.tonight - self.median) >= MOVED_SHARE
        figure = self.metric.rpartition(": ")[2]
        if self.ratio is None:
            # A slope near 0 is noise; any other figure that became 0 or left 0 has changed.
            return self.tonight != self.median and figure not in MOVED_RATIOS
        bound = MOVED_RATIOS.get(figure, MOVED_RATIO)
        return not 1 / bound <= self.ratio <= bound

    @property
    def effect(self) -> float:
        """The factor of the change, for ranking; infinite when a figure became 0 or left 0."""
        if self.unit == "share" and self.median is not None:
            return 1 + abs(self.tonight - self.median)
        return float("inf") if self.ratio is None else max(self.ratio, 1 / self.ratio)


@dataclass(frozen=True)
class Change:
    """A scenario or one of its judges has another state than in the previous night."""

    scenario: str
    judge: str | None
    """None: the scenario as a whole."""
    before: State | None
    now: State | None
    """None: it did not exist in that night."""
    text: str


@dataclass(frozen=True)
class Row:
    """One scenario of the folder, tonight."""

    scenario: str
    state: State | None
    """None: the scenario was not run; `text` gives the reason."""
    text: str
    trial: Trial | None
    last: Trial | None
    """The last trial of the previous night."""
    trials: int = 0
    """Number of trials tonight."""
    streak: int = 0
    """Number of successive nights with this state, tonight included."""
    green_commit: str | None = None
    """The commit of the last night that passed, if tonight did not pass."""
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class Night:
    """The content of the page."""

    night: str
    host_class: str
    state: State
    exit: int
    because: tuple[str, ...]
    """Reasons against a PASS other than the states of the scenarios; controls come first."""
    counts: tuple[tuple[State, int], ...]
    controls: tuple[ControlResult, ...]
    rows: tuple[Row, ...]
    """The worst state first, then in the order of the folder."""
    changes: tuple[Change, ...]
    skipped: tuple[str, ...]
    gone: tuple[str, ...]
    """Names of scenarios that ran in the previous night and are no longer in the folder."""
    commits: tuple[str, ...]
    """Commits of tonight's trials. There are several when the checkout changed during the night."""
    wall_s: float
    nights_before: int

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures of all scenarios, in the order of `rows`."""
        return tuple(figure for row in self.rows for figure in row.figures)

    @property
    def moved(self) -> tuple[Figure, ...]:
        """The figures that moved, the largest change first."""
        found = [figure for figure in self.figures if figure.moved]
        return tuple(sorted(found, key=lambda figure: -figure.effect))


def compare(
    night: str,
    host_class: str,
    known: Sequence[tuple[str, Sequence[Trial]]],
    controls: Sequence[ControlResult],
    skipped: Sequence[str] = (),
    gone: Sequence[str] = (),
    *,
    interrupted: str | None = None,
) -> Night:
    """`known` holds each scenario of the folder with its trials of tonight and of past nights, oldest first."""
    found = [_row(scenario, night, trials, interrupted) for scenario, trials in known]
    rows = tuple(sorted(found, key=lambda row: WORST_FIRST.index(row.state)))
    state, because = _night_state(rows, controls, interrupted)
    made = [row.trial for row in rows if row.trial is not None]
    made += [control.trial for control in controls if control.trial is not None]
    before = {trial.night for _, trials in known for trial in trials if trial.night != night}
    return Night(
        night=night,
        host_class=host_class,
        state=state,
        exit=Exit.INTERRUPTED if interrupted else EXIT_CODES[state],
        because=because,
        counts=tuple(
            (each, n)
            for each in (State.FAIL, State.UNKNOWN, State.PASS)
            if (n := sum(row.state is each for row in rows))
        ),
        controls=tuple(controls),
        rows=rows,
        changes=tuple(change for row in found for change in _changes(row)),
        skipped=tuple(skipped),
        gone=tuple(gone),
        commits=tuple(dict.fromkeys(commit(one.commit, dirty=one.dirty) for one in made if one.commit)),
        wall_s=sum(trial.wall_s for trial in made),
        nights_before=len(before),
    )


def _night_state(
    rows: Sequence[Row], controls: Sequence[ControlResult], interrupted: str | None
) -> tuple[State, tuple[str, ...]]:
    """FAIL > UNKNOWN > PASS. A control that was not detected makes the night UNKNOWN, but never hides a FAIL."""
    because = [f"{found.control.name} was not detected: {found.text}" for found in controls if not found.seen]
    if interrupted:
        left = sum(row.state is None for row in rows)
        count = {0: "during the last scenario", 1: "1 scenario was not run"}
        because.append(f"{interrupted} received: {count.get(left, f'{left} scenarios were not run')}")
    if any(row.state is State.FAIL for row in rows):
        return State.FAIL, tuple(because)
    if because or any(row.state is not State.PASS for row in rows):
        return State.UNKNOWN, tuple(because)
    return State.PASS, ()


def _row(scenario: str, night: str, trials: Sequence[Trial], interrupted: str | None) -> Row:
    by_night = {trial.night: trial for trial in trials}  # the last trial of each night
    tonight = by_night.pop(night, None)
    before = list(by_night.values())
    last = before[-1] if before else None
    if tonight is None:
        return Row(scenario, None, f"not run: {interrupted} received" if interrupted else "not run", None, last)
    others = (n for n, trial in enumerate(reversed(before), 1) if trial.state is not tonight.state)
    green = next((trial.commit for trial in reversed(before) if trial.state is State.PASS), None)
    return Row(
        scenario,
        tonight.state,
        _why(tonight),
        tonight,
        last,
        sum(trial.night == night for trial in trials),
        next(others, len(before) + 1),
        green if tonight.state is not State.PASS else None,
        tuple(_figures(tonight, before)),
    )


def _why(trial: Trial) -> str:
    """The texts of the required judges that decided the state, or the reason for no verdict."""
    told = [
        f"{one.name}: {one.text}" for one in trial.judges if one.required and one.state is trial.state is not State.PASS
    ]
    return "; ".join([*([trial.because] if trial.because else []), *told])


def _changes(row: Row) -> Iterable[Change]:
    """The changes since the previous night. A scenario without a previous night has none."""
    scenario, tonight, last = row.scenario, row.trial, row.last
    if tonight is None or last is None:
        return
    if tonight.state is not last.state:
        yield Change(scenario, None, last.state, tonight.state, _why(tonight))
    words = {one.name: one for one in last.judges}
    for one in tonight.judges:
        before = words.get(one.name)
        if before is None or before.state is not one.state:
            yield Change(scenario, one.name, before.state if before else None, one.state, _word(one))
    for name in [name for name in words if tonight.judges and tonight.said(name) is None]:
        yield Change(scenario, name, words[name].state, None, "this judge no longer exists")


def _word(one: Judged) -> str:
    return one.text if one.required else f"{one.text} (observed only)"


def _figures(tonight: Trial, before: Sequence[Trial]) -> Iterable[Figure]:
    past = [{each.metric: each.value for each in scalars(trial)} for trial in before[-TREND_NIGHTS:]]
    for each in scalars(tonight):
        if not _shown(each):
            continue
        trend = tuple(known[each.metric] for known in past if each.metric in known)
        recent = [known[each.metric] for known in past[-MEDIAN_NIGHTS:] if each.metric in known]
        median = statistics.median(recent) if recent else None
        ratio = each.value / median if median is not None and median > 0 and each.value > 0 else None
        last = past[-1].get(each.metric) if past else None
        yield Figure(tonight.scenario, each.metric, each.unit, each.value, last, median, len(recent), ratio, trend)


def _shown(scalar: Scalar) -> bool:
    """True for a figure that the page shows; trials.sqlite holds all of them."""
    judge, _, figure = scalar.metric.rpartition(": ")
    return figure in SHOWN_LATENCY if judge == "latency" else judge == "" or figure in SHOWN_FIGURES
