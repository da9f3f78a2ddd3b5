"""Trials that were never run."""

from collections.abc import Mapping

from assertions.verdict import Judged, Level, State
from harness.nightly.controls import CONTROLS, ControlResult
from harness.nightly.trial import Trial

HOST = "x86_64-2c fake"
TONIGHT = "2026-11-28"


def said(
    name: str = "ttft.p99 < 1s",
    state: State = State.PASS,
    *,
    level: Level = Level.REQUIRED,
    text: str = "as ever",
    figures: Mapping[str, float] | None = None,
) -> Judged:
    return Judged(name, state, text, level, figures=figures or {})


def trial(
    night: str = TONIGHT,
    state: State = State.PASS,
    *judges: Judged,
    scenario: str = "chat",
    commit: str = "a" * 40,
    because: str | None = None,
    host: str = HOST,
    wall_s: float = 10.0,
    control: bool = False,
    run_dir: str = "/runs/2026-11-28_010203_abcd",
) -> Trial:
    code = {State.PASS: 0, State.FAIL: 1, State.UNKNOWN: 2}[state]
    return Trial(
        night,
        scenario,
        control,
        host,
        f"{night}T22:00:00+00:00",
        state,
        code,
        wall_s,
        because,
        run_id="2026-11-28_010203_abcd",
        run_dir=run_dir,
        commit=commit,
        seed=7,
        drive="virtual",
        means="x",
        replay="seatrial replay 2026-11-28_010203_abcd",
        judges=judges,
    )


def nights(*states: State) -> tuple[Trial, ...]:
    """One night each, the last one is tonight."""
    first = 28 - len(states) + 1
    return tuple(trial(f"2026-11-{first + n:02d}", state, commit=f"{n:040d}") for n, state in enumerate(states))


def awake() -> tuple[ControlResult, ...]:
    return tuple(ControlResult(control, True, f"{control.judge} saw it", None) for control in CONTROLS)


def asleep() -> tuple[ControlResult, ...]:
    return tuple(ControlResult(control, False, f"{control.judge} says PASS", None) for control in CONTROLS)
