"""Select the scenarios of a night: every *.toml of a folder in order of name. If one is invalid, none is run."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.exits import Refusal
from harness.options import RunOptions
from scenarios.problems import ScenarioProblems

RESERVED = "planted-"
"""Prefix of the names of the built-in controls."""
MARGIN_S = 1800.0
"""Time (s) beyond a trial's planned longest time, for start, reference, verdict and a slow machine."""


@dataclass(frozen=True)
class Job:
    """One trial to make."""

    scenario: str
    """The scenario's name, which identifies it over nights."""
    options: RunOptions
    control: bool = False
    wall_s_max: float = MARGIN_S
    """A trial that takes longer is stopped, so that one that hangs does not take the whole night."""


def select(
    folder: Path, runs_dir: Path, allow_hosts: tuple[str, ...], *, only_virtual: bool, allow_command: bool = False
) -> tuple[list[Job], list[str]]:
    """The trials of the folder, and the names of scenarios that are not virtual, if those are to be left out.

    Raises Refusal with every problem of every scenario.
    """
    files = _files(folder)
    jobs, skipped, wrong, bad = [], [], [], 0
    seen: dict[str, str] = {}
    for file in files:
        typed = allow_command or not _recorded(file)
        options = RunOptions(str(file), runs_dir, allow_hosts=allow_hosts, allow_command=typed)
        try:
            name, drive, wall_s = _inspect(options, skip_live=only_virtual)
        except (ScenarioProblems, Refusal) as problem:
            wrong += (
                [each.render() for each in problem.problems]
                if isinstance(problem, ScenarioProblems)
                else [f"{file.name}: {problem}"]
            )
            bad += 1
            continue
        named = [f"{file.name}: {text}" for text in _name_problems(name, seen)]
        wrong, bad = wrong + named, bad + bool(named)
        seen[name] = file.name
        if only_virtual and drive != "virtual":
            skipped.append(name)
        else:
            jobs.append(Job(name, options, wall_s_max=wall_s * 1.2 + MARGIN_S))
    if wrong:
        are = "is" if bad == 1 else "are"
        raise Refusal("\n".join((f"nothing was started: {bad} of {len(files)} scenarios {are} invalid", *wrong)))
    if not jobs:
        raise Refusal(f'no scenario of {folder} has drive = "virtual": leave --only-virtual out, or add one')
    return jobs, skipped


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise Refusal(f"{folder} {what}: give a folder that holds the night's scenarios, one TOML file each")
    files = sorted(path for path in folder.glob("*.toml") if path.is_file())
    if not files:
        raise Refusal(f"{folder} holds no *.toml: put the night's scenarios there; `seatrial check` validates them")
    return files


def _recorded(file: Path) -> bool:
    """True when the file or its link target is in a run directory, which may come from an unknown person."""
    homes = (file.parent, file.resolve().parent)
    return any((home / name).exists() for home in homes for name in ("plan.json", "options.json", "run.sqlite"))


def _inspect(options: RunOptions, *, skip_live: bool) -> tuple[str, str, float]:
    """Name, drive and longest planned time of a scenario that could be run as it stands. Raises ScenarioProblems or
    Refusal."""
    from harness.discovery import discover
    from harness.plan.plan import make
    from harness.plan.target_policy import refused_target
    from harness.prepare import prepare
    from harness.provenance import provenance
    from runtime.points import catalogue

    document = prepare(options, catalogue())
    scenario = document.scenario
    if skip_live and scenario.drive != "virtual":
        return scenario.name, scenario.drive, 0.0
    refusal = refused_target(scenario, options.allow_hosts, allow_command=options.allow_command)
    if refusal is not None:
        raise Refusal(refusal)
    plan = make(discover(document)[0], catalogue(), "planned", provenance())
    return scenario.name, scenario.drive, plan.cost.wall_s_max + scenario.target.ready_max


def _name_problems(name: str, seen: dict[str, str]) -> Iterator[str]:
    if name in seen:
        yield f'name = "{name}" is also the name of {seen[name]}; give each scenario its own name'
    if name.startswith(RESERVED):
        yield f'name = "{name}": names that begin with "{RESERVED}" are reserved for the controls; choose another'
