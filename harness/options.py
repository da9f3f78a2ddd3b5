"""The options and the outcome of a run: the interface between the CLI and a run.

harness.run.run(RunOptions) -> Outcome        called by `seatrial run`, `demo` and `replay`
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

OPTIONS_FILE = "options.json"
COSTS_FILE = "costs.json"
"""File in the run directory that holds the cost table of a virtual run, unless a built-in table was used."""
NOT_RECORDED = frozenset({"runs_dir", "allow_hosts", "allow_command", "pid"})


@dataclass(frozen=True)
class RunOptions:
    """The options of one run. None means that the scenario's value is used.

    `allow_hosts` and `allow_command` are permissions. The user gives them for each run. They are never read from a run
    directory, because a directory from someone else could then direct load at any host or start any program. A `pid`
    is not recorded, because it is valid only while its process lives.
    """

    scenario: str  # path of a TOML file, or the name of a library scenario
    runs_dir: Path = Path("runs")
    seed: int | None = None
    target: str | None = None  # URL of a running server
    model: str | None = None
    minutes: float | None = None  # length of the trial
    allow_hosts: tuple[str, ...] = ()  # "HOST:PORT" of each permitted target that is not loopback
    allow_command: bool = False  # permits the start of target.command: the user named the file, or gave the flag
    replay_of: str | None = None  # run id
    undeclared: tuple[str, ...] = ()  # "point: action" lines that are armed without being declared to the judges
    metrics: str | None = None  # URL of the target's Prometheus page
    pid: int | None = None  # the target's process
    virtual: bool = False  # run in virtual time, for every drive in the scenario
    costs: str | None = None  # virtual runs: name of a built-in cost table, or path of a table
    slowing: float | None = None  # virtual runs: launches cost this share more at the trial's end; judges don't know

    def __post_init__(self) -> None:
        if self.minutes is not None and not 0 < self.minutes <= 60 * 24 * 31:
            raise ValueError(f"--minutes {self.minutes:g}: give more than 0 and at most a month")
        if self.pid is not None and self.pid < 1:
            raise ValueError(f"--pid {self.pid}: give a process id, which is 1 or more")
        if self.slowing is not None and not 0 < self.slowing <= 10:
            raise ValueError(f"slowing {self.slowing:g}: give a share above 0 and at most 10")
        for host in self.allow_hosts:
            name, _, port = host.rpartition(":")
            if not name or not port.isdecimal() or "/" in host:
                raise ValueError(f"--allow-host {host}: give HOST:PORT, such as gpu7:8000")
        if self.seed is not None and self.seed < 0:
            raise ValueError(f"--seed {self.seed}: give 0 or more")

    def to_json(self) -> dict[str, Any]:
        """The content of options.json in the run directory. `replay` reads it."""
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in NOT_RECORDED and getattr(self, each.name) not in (None, (), False)
        }

    @classmethod
    def from_json(cls, recorded: dict[str, Any], **now: Any) -> Self:
        """Read what `to_json` wrote. Raises ValueError with each key that is unknown or never read from a file."""
        known = {each.name for each in fields(cls)} - NOT_RECORDED
        unknown = sorted(recorded.keys() - known)
        if unknown:
            raise ValueError(f"{OPTIONS_FILE}: unknown {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        return cls(**{**recorded, "undeclared": tuple(recorded.get("undeclared", ())), **now})


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run. `exit` is a harness.exits.Exit; verdict.json exists when it is 0, 1 or 2."""

    run_dir: Path
    exit: int
