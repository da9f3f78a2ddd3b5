"""Commands that make a run: run, demo, replay."""

import json
import sys
from pathlib import Path
from typing import Any

from harness.cli import run_dirs
from harness.exits import Exit, Refusal
from harness.options import COSTS_FILE, OPTIONS_FILE, RunOptions
from harness.provenance import provenance


def trial(options: RunOptions, *, report_only: bool = False) -> int:
    """Make a run, which prints its own verdict. `report_only` turns FAIL and UNKNOWN into exit code 0."""
    from harness.run import run

    code = run(options).exit
    return Exit.PASS if report_only and code in (Exit.FAIL, Exit.UNKNOWN) else code


def replayed(run: str, runs_dir: Path, seed: int | None, allow_hosts: tuple[str, ...], *, allow_command: bool) -> int:
    run_dir = run_dirs.find(run, runs_dir)
    plan = _plan(run_dir)
    options = _options_of(run_dir, plan, runs_dir, seed, allow_hosts, allow_command)
    _warn_of_another_commit(plan)
    return trial(options)


def _plan(run_dir: Path) -> dict[str, Any]:
    try:
        plan = json.loads((run_dir / "plan.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise Refusal(f"{run_dir} can't be replayed: plan.json: {problem}") from None
    if not isinstance(plan, dict):
        raise Refusal(f"{run_dir} can't be replayed: plan.json is not a JSON object")
    return plan


def _options_of(
    run_dir: Path,
    plan: dict[str, Any],
    runs_dir: Path,
    seed: int | None,
    allow_hosts: tuple[str, ...],
    allow_command: bool,
) -> RunOptions:
    """The recorded options with the permissions of this call. The scenario is the run directory's scenario.toml."""
    scenario = run_dir / "scenario.toml"
    if not scenario.is_file():
        raise Refusal(f"{run_dir} can't be replayed: it holds no scenario.toml")
    recorded: dict[str, Any] = {}
    try:
        recorded = json.loads((run_dir / OPTIONS_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        pass  # a run of an embedding program: scenario and seed are complete
    except (OSError, ValueError) as problem:
        raise Refusal(f"{run_dir / OPTIONS_FILE}: {problem}") from None
    wanted = {**recorded, "scenario": str(scenario), "seed": seed if seed is not None else plan.get("seed")}
    wanted["replay_of"] = str(plan.get("run_id"))
    if (run_dir / COSTS_FILE).is_file():
        wanted["costs"] = str(run_dir / COSTS_FILE)  # the table of that run; the original file may have changed
    try:
        return RunOptions.from_json(wanted, runs_dir=runs_dir, allow_hosts=allow_hosts, allow_command=allow_command)
    except (TypeError, ValueError) as problem:
        raise Refusal(str(problem)) from None


def _warn_of_another_commit(plan: dict[str, Any]) -> None:
    now, then = provenance().commit, plan.get("commit")
    if then != now:
        print(f"seatrial: the recorded run used commit {then}; this is {now or 'no commit'}", file=sys.stderr)
    if plan.get("dirty"):
        print("seatrial: the recorded run used a working tree with uncommitted changes", file=sys.stderr)
