"""The two positive controls of every night: a planted leak and a planted drift. They test whether judges detect them.

Both run in virtual time, so they are equal on every machine, take seconds, and have a known size.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from assertions.verdict import State
from harness.nightly.select import Job
from harness.nightly.trial import Trial
from harness.options import RunOptions

LEAK, DRIFT = "planted-leak", "planted-drift"
SLOWER = 0.20
SLOWER_SEEN = (0.15, 0.25)
"""The measured growth of the P99 must be in this range. Each P99 is a quantile of 600 probes, so it varies."""


@dataclass(frozen=True)
class Control:
    """The planted defect, the judge that must detect it, and a check that the judge's figures have the right size."""

    name: str
    planted: str
    judge: str
    size_matches: Callable[[Mapping[str, float]], bool]


@dataclass(frozen=True)
class ControlResult:
    """The result of one control: `seen` is True when its judge detected it."""

    control: Control
    seen: bool
    text: str
    trial: Trial | None


CONTROLS = (
    Control(
        LEAK,
        "KV blocks that are not freed, caused by an undeclared fault",
        "reclamation",
        # Each lost release leaves at least one block of its request.
        lambda figures: figures.get("per_1000_fires", 0.0) >= 1000,
    ),
    Control(
        DRIFT,
        f"launches that take {SLOWER:.0%} longer at the end of the trial than at its start",
        "drift.ttft.p99 < 10% [probe]",
        lambda figures: SLOWER_SEEN[0] <= figures.get("share", 0.0) <= SLOWER_SEEN[1],
    ),
)


def jobs(runs_dir: Path) -> tuple[Job, ...]:
    """The jobs of the controls. They run first, so that an interrupted night has their results."""
    leak = RunOptions(_file(LEAK), runs_dir, undeclared=("memory.free: drop",))
    drift = RunOptions(_file(DRIFT), runs_dir, slowing=SLOWER)
    return Job(LEAK, leak, control=True), Job(DRIFT, drift, control=True)


def look(control: Control, trial: Trial | None) -> ControlResult:
    """Check that the control's judge says FAIL, with figures of the planted size."""
    said = trial.said(control.judge) if trial is not None else None
    seen = said is not None and said.state is State.FAIL and control.size_matches(said.figures)
    if trial is None:
        text = "it was not run"
    elif said is None:
        text = trial.because or f"{control.judge} gave no result"
    elif said.state is not State.FAIL:
        text = f"{control.judge} says {said.state}: {said.text}"
    else:
        text = said.text if seen else f"{control.judge} says FAIL, but not with the planted size: {said.text}"
    return ControlResult(control, seen, text, trial)


def of(name: str) -> Control:
    """The control of this name."""
    return next(control for control in CONTROLS if control.name == name)


def _file(name: str) -> str:
    return str(files("harness.nightly").joinpath(f"{name}.toml"))
