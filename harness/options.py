"""The options and the outcome of a run: the interface between the CLI and a run.

harness.run.run(RunOptions) -> Outcome        called by `seatrial run`, `demo` and `replay`
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

OPTIONS_FILE = "options.json"
COSTS_FILE = "costs.json"
"""In the run directory: the cost table of a virtual run that was not given one of ours."""
NOT_RECORDED = frozenset({"runs_dir", "allow_hosts", "allow_command", "pid"})


@dataclass(frozen=True)
class RunOptions:
    """One run to make. None means: as the scenario says.

    `allow_hosts` and `allow_command` are permissions. They are typed each time and never read from a run directory,
    or a directory that somebody sent us could point load at a stranger or start a program. A `pid` means something
    only while its process lives.
    """

    scenario: str  # path of a TOML file, or the name of a library scenario
    runs_dir: Path = Path("runs")
    seed: int | None = None
    target: str | None = None  # URL of a server that runs already
    model: str | None = None
    minutes: float | None = None  # length of the trial
    allow_hosts: tuple[str, ...] = ()  # "HOST:PORT", typed out, for any target that is not loopback
    allow_command: bool = False  # may the scenario's target.command be started: the file, or the flag, was typed
    replay_of: str | None = None  # run id
    undeclared: tuple[str, ...] = ()  # "point: action" lines that are armed and that no judge is told of
    metrics: str | None = None  # URL of the target's Prometheus page
    pid: int | None = None  # the target's process
    virtual: bool = False  # in virtual time, whatever drive the scenario says
    costs: str | None = None  # virtual: a cost table of ours by name, or the path of one
    slowing: float | None = None  # virtual: launches cost this share more after a trial's time, and no judge is told

    def __post_init__(self) -> None:
        if self.minutes is not None and not 0 < self.minutes <= 60 * 24 * 31:
            raise ValueError(f"--minutes {self.minutes:g}: give more than 0 and at most a month")
        if self.pid is not None and self.pid < 1:
            raise ValueError(f"--pid {self.pid}: give the number of a process")
        if self.slowing is not None and not 0 < self.slowing <= 10:
            raise ValueError(f"slowing {self.slowing:g}: give a share above 0 and at most 10")
        for host in self.allow_hosts:
            name, _, port = host.rpartition(":")
            if not name or not port.isdecimal() or "/" in host:
                raise ValueError(f"--allow-host {host}: give HOST:PORT, such as gpu7:8000")
        if self.seed is not None and self.seed < 0:
            raise ValueError(f"--seed {self.seed}: give 0 or more")

    def to_json(self) -> dict[str, Any]:
        """For options.json in the run directory, beside the scenario as it was read: what `replay` needs."""
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in NOT_RECORDED and getattr(self, each.name) not in (None, (), False)
        }

    @classmethod
    def from_json(cls, recorded: dict[str, Any], **now: Any) -> Self:
        """Raises ValueError naming a key that this version does not know, or that is never taken from a file."""
        known = {each.name for each in fields(cls)} - NOT_RECORDED
        unknown = sorted(recorded.keys() - known)
        if unknown:
            raise ValueError(f"{OPTIONS_FILE}: unknown {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        return cls(**{**recorded, "undeclared": tuple(recorded.get("undeclared", ())), **now})


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run. `exit` is one of harness.exits.Exit; when it is 0, 1 or 2, verdict.json is written."""

    run_dir: Path
    exit: int
