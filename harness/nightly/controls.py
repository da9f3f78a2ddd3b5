"""Two positive controls of every night: a planted leak and a planted drift. A judge that misses one is asleep.

Both are virtual, so they are the same on every machine: seconds each, and known in size.
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
"""What a P99 may be told to have grown by: each of its values is a quantile of 600 probes."""


@dataclass(frozen=True)
class Control:
    """What is planted, who must see it, and whether what he saw is of the planted size."""

    name: str
    planted: str
    judge: str
    of_size: Callable[[Mapping[str, float]], bool]


@dataclass(frozen=True)
class Found:
    """What became of one control."""

    control: Control
    seen: bool
    text: str
    trial: Trial | None


CONTROLS = (
    Control(
        LEAK,
        "releases of KV blocks that get lost, behind the judges' back",
        "reclamation",
        # Each lost release leaves at least one block of its request.
        lambda figures: figures.get("per_1000_fires", 0.0) >= 1000,
    ),
    Control(
        DRIFT,
        f"launches that cost {SLOWER:.0%} more at the end of the trial than at its start",
        "drift.ttft.p99 < 10% [probe]",
        lambda figures: SLOWER_SEEN[0] <= figures.get("share", 0.0) <= SLOWER_SEEN[1],
    ),
)


def jobs(runs_dir: Path) -> tuple[Job, ...]:
    """They come first, so that a night which is cut short still knows whether its judges were awake."""
    leak = RunOptions(_file(LEAK), runs_dir, undeclared=("memory.free: drop",))
    drift = RunOptions(_file(DRIFT), runs_dir, slowing=SLOWER)
    return Job(LEAK, leak, control=True), Job(DRIFT, drift, control=True)


def look(control: Control, trial: Trial | None) -> Found:
    """Did the judge FAIL, and at the planted size?"""
    if trial is None:
        return Found(control, False, "it was not run", None)
    said = trial.said(control.judge)
    if said is None:
        return Found(control, False, trial.because or f"no word of {control.judge}", trial)
    if said.state is not State.FAIL:
        return Found(control, False, f"{control.judge} says {said.state}: {said.text}", trial)
    if not control.of_size(said.figures):
        return Found(control, False, f"{control.judge} says FAIL, but not of the planted size: {said.text}", trial)
    return Found(control, True, said.text, trial)


def of(name: str) -> Control:
    """The control of this name."""
    return next(control for control in CONTROLS if control.name == name)


def _file(name: str) -> str:
    return str(files("harness.nightly").joinpath(f"{name}.toml"))
