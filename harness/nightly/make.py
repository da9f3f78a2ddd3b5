"""Make one trial of a night: a process of its own, so that a crash costs one trial and not the night."""

import json
import os
import signal
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from assertions.verdict import State, Verdict
from harness.cli.exits import Exit
from harness.drive.child import Child, describe
from harness.drive.stop import Stop, StopNow
from harness.nightly.choose import Job
from harness.nightly.trial import Said, Trial

LOOK_S = 0.1
GRACE_S = 30.0
NO_GITHUB = {"GITHUB_ACTIONS": "", "GITHUB_STEP_SUMMARY": ""}
"""The night speaks for its trials: a planted FAIL must not be shown as a job's error."""


def make(job: Job, night: str, host_class: str, log: Path, stop: Stop) -> Trial:
    """Run, wait, and read what was judged. The first signal is handed on, and the trial is judged as far as it came;
    the second kills it and is raised again (StopNow)."""
    started, began_s = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    options = job.options
    words = (json.dumps(options.to_json()), str(options.runs_dir), *options.allow_hosts)
    child = Child(job.scenario, (sys.executable, "-m", "harness.nightly.one", *words), log, NO_GITHUB)
    try:
        _wait(child, stop)
    except StopNow:
        child.kill()
        raise
    finally:
        code = child.stop(GRACE_S)
    wall_s = time.monotonic() - began_s
    said = next((line for line in child.heard() if line.get("e") == "judged"), None)
    bare = Trial(night, job.scenario, job.control, host_class, started, State.UNKNOWN, code, wall_s)
    if said is None:
        return replace(bare, because=f"the trial ended with {describe(code)}: {child.last_words()}")
    return judged(bare, Path(str(said["run_dir"])))


def _wait(child: Child, stop: Stop) -> None:
    told = False
    while child.exit_code is None:
        time.sleep(LOOK_S)
        if stop.asked is not None and not told:
            os.kill(child.pid, signal.SIGTERM)
            told = True


def judged(bare: Trial, run_dir: Path) -> Trial:
    """The trial with what verdict.json says; UNKNOWN when there is none."""
    try:
        verdict = Verdict.from_json(json.loads((run_dir / "verdict.json").read_text(encoding="utf-8")))
        plan = json.loads((run_dir / "plan.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as problem:
        text = f"no verdict can be read: {type(problem).__name__}: {problem}"
        return replace(bare, because=text, run_id=run_dir.name, run_dir=str(run_dir))
    run = verdict.run
    because = "interrupted: judged as far as it came" if bare.exit == Exit.INTERRUPTED else None
    return replace(
        bare,
        state=verdict.state,
        because=because,
        run_id=run.run_id,
        run_dir=str(run_dir),
        commit=run.commit,
        dirty=run.dirty,
        seed=run.seed,
        drive=str(plan.get("scenario", {}).get("drive", "live")),
        means=run.means,
        replay=run.replay,
        judges=tuple(
            Said(
                one.name,
                one.level,
                one.state,
                one.summary or one.because or "",
                one.limit,
                one.observed,
                dict(one.figures),
            )
            for one in verdict.judges
        ),
    )
