"""A command that we start can be started again at the same address, and one that fails to is told."""

import sys
from pathlib import Path

import pytest

from harness.live.target import Command
from harness.telemetry.proc import read_process
from harness.trial.ports import RestartFailed
from tests.harness.plan.test_plan import plan_of

SERVER = Path(__file__).parents[2] / "foreign" / "bad_server.py"
TEXT = """
schema = 1
name = "restarts"
means = "x"
phases = {{ trial = "10s" }}
load = [{{ id = "chat", rate = "2/s" }}]
[target]
kind = "command"
command = {command}
ready_max = "20s"
"""


def started(tmp_path: Path, *command: str) -> Command:
    return Command(plan_of(TEXT.format(command=list(command))), tmp_path, allow_command=True)


def test_another_process_serves_at_the_same_address(tmp_path: Path) -> None:
    target = started(tmp_path, sys.executable, str(SERVER), "{port}", "leaks")
    try:
        before, url = target.pid, target.url
        target.restart()
        assert target.url == url
        assert target.gone() is None
        assert before is not None and target.pid is not None
        assert before != target.pid
        assert read_process(before) is None
    finally:
        target.stop()


def test_a_command_that_ends_at_once_the_second_time_did_not_start_again(tmp_path: Path) -> None:
    once = f"import pathlib, runpy, sys; p = pathlib.Path('{tmp_path}/ran'); p.exists() and sys.exit(3); p.touch(); "
    once += f"sys.argv = ['s', sys.argv[1], 'leaks']; runpy.run_path('{SERVER}', run_name='__main__')"
    target = started(tmp_path, sys.executable, "-c", once, "{port}")
    try:
        with pytest.raises(RestartFailed, match="exit code 3"):
            target.restart()
    finally:
        target.stop()
