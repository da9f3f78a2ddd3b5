"""The public face of seatrial for programs and notebooks; everything else is the command.

    outcome = seatrial.run(seatrial.RunOptions("first-soak"))
    run = seatrial.Run.load(outcome.run_dir)
    run.verdict.state, run.history.requests.ok.sum()
"""

from harness.loaded import Run
from harness.options import Outcome, RunOptions
from harness.run import run

__all__ = ["Outcome", "Run", "RunOptions", "run"]
