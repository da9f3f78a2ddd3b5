"""Make one trial of a night in a process of its own, so that a crash ends one trial and not the night."""

import json
import os
import signal
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from assertions.verdict import State, Verdict
from harness.exits import Exit
from harness.live.child import Child, describe
from harness.nightly.select import Job
from harness.nightly.trial import Trial
from harness.trial.stop import Stop, StopNow

LOOK_S = 0.1
JUDGED_S = 600.0
"""Longest time from the request to stop until the verdict (s); judging an eight-hour history takes minutes."""
GRACE_S = 30.0
NO_GITHUB = {"GITHUB_ACTIONS": "", "GITHUB_STEP_SUMMARY": ""}
"""Trials write no GitHub annotations: the FAIL of a control must not be shown as an error of the job."""


def run_trial(job: Job, night: str, host_class: str, log: Path, stop: Stop) -> Trial:
    """Run one trial, wait, and read its verdict. The first signal is passed on, and the trial is judged up to there.
    The second signal kills it and raises StopNow. A trial that takes too long is asked to stop, then killed."""
    started, began_s = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    options = job.options
    may = {"allow_hosts": options.allow_hosts, "allow_command": options.allow_command}
    words = (json.dumps(options.to_json()), str(options.runs_dir), json.dumps(may))
    child = Child(job.scenario, (sys.executable, "-m", "harness.nightly.worker", *words), log, NO_GITHUB)
    try:
        late = _wait(child, stop, began_s + job.wall_s_max)
    except StopNow:
        child.kill()
        raise
    finally:
        code = child.stop(GRACE_S)
    wall_s = time.monotonic() - began_s
    said = next((line for line in child.heard() if line.get("e") == "judged"), None)
    bare = Trial(night, job.scenario, job.control, host_class, started, State.UNKNOWN, code, wall_s)
    why = f"it took more than {job.wall_s_max:.0f} s and was stopped; " if late else ""
    if said is None:
        return replace(bare, because=f"{why}the trial ended with {describe(code)}: {child.last_words()}")
    kept = judged(bare, Path(str(said["run_dir"])))
    return replace(kept, because=why + (kept.because or "")) if late else kept


def _wait(child: Child, stop: Stop, until_s: float) -> bool:
    """Wait until the trial ends, or JUDGED_S after it was asked to stop. True: it ran past `until_s` (monotonic)."""
    told_s: float | None = None
    late = False
    while child.exit_code is None and (told_s is None or time.monotonic() < told_s + JUDGED_S):
        time.sleep(LOOK_S)
        late = late or time.monotonic() > until_s
        if told_s is None and (late or stop.asked is not None):
            os.kill(child.pid, signal.SIGTERM)
            told_s = time.monotonic()
    return late


def judged(bare: Trial, run_dir: Path) -> Trial:
    """The trial with the content of verdict.json; UNKNOWN when there is no verdict."""
    try:
        verdict = Verdict.from_json(json.loads((run_dir / "verdict.json").read_text(encoding="utf-8")))
        plan = json.loads((run_dir / "plan.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as problem:
        text = f"the verdict can't be read: {type(problem).__name__}: {problem}"
        return replace(bare, because=text, run_id=run_dir.name, run_dir=str(run_dir))
    run = verdict.run
    short = bare.exit == Exit.INTERRUPTED
    because = "interrupted: judged up to the interruption" if short else None
    return replace(
        bare,
        # An interrupted trial may FAIL, but its PASS would not cover the missing part.
        state=State.UNKNOWN if short and verdict.state is State.PASS else verdict.state,
        because=because,
        run_id=run.run_id,
        run_dir=str(run_dir),
        commit=run.commit,
        dirty=run.dirty,
        seed=run.seed,
        drive=str(plan.get("scenario", {}).get("drive", "live")),
        means=run.means,
        replay=run.replay,
        judges=verdict.judges,
    )
