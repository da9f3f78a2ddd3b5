import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from harness.live.child import Child, ChildDied

ECHO = """
import json, sys
print(json.dumps({"e": "ready", "n": 1}), flush=True)
for line in sys.stdin:
    print(json.dumps({"e": "echo", **json.loads(line)}), flush=True)
"""


def child(tmp_path: Path, code: str) -> Child:
    return Child("toy", [sys.executable, "-c", textwrap.dedent(code)], tmp_path / "toy.log")


def test_lines_go_both_ways_and_stop_ends_it(tmp_path):
    toy = child(tmp_path, ECHO)
    assert toy.wait_for("ready", 20)["n"] == 1
    assert toy.say({"x": 5})
    assert toy.wait_for("echo", 20)["x"] == 5
    assert toy.exit_code is None
    assert toy.stop(5) == -signal.SIGTERM


def test_child_that_dies_first_is_told_with_code_and_last_words(tmp_path):
    toy = child(tmp_path, "import sys; print('what went wrong', file=sys.stderr); sys.exit(7)")
    with pytest.raises(ChildDied, match=r"exit code 7: what went wrong"):
        toy.wait_for("ready", 20)
    assert toy.stop(5) == 7


def test_what_it_prints_beside_the_protocol_is_kept_in_the_log(tmp_path):
    toy = child(tmp_path, "print('stray'); import json; print(json.dumps({'e': 'ready'}), flush=True)")
    toy.wait_for("ready", 20)
    toy.stop(5)
    assert (tmp_path / "toy.log").read_text() == "stray\n"


def test_stop_kills_what_the_child_started_and_one_that_ignores_sigterm(tmp_path):
    toy = child(
        tmp_path,
        """
        import json, signal, subprocess, sys
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        grandchild = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        print(json.dumps({"e": "ready", "grandchild": grandchild.pid}), flush=True)
        signal.pause()
        """,
    )
    grandchild = toy.wait_for("ready", 20)["grandchild"]
    assert toy.stop(0.1) == -signal.SIGKILL
    assert _ended(grandchild)


def test_harness_killed_without_a_word_leaves_no_orphan(tmp_path):
    code = f"""
import sys
sys.path.insert(0, {os.getcwd()!r})
from pathlib import Path
from harness.live.child import Child
toy = Child("toy", [sys.executable, "-c", {ECHO!r}], Path({str(tmp_path / "toy.log")!r}))
toy.wait_for("ready", 20)
print(toy.pid, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    assert _ended(pid)


def _ended(pid: int) -> bool:
    """Gone, or a zombie that nobody reaps in this container, within ten seconds."""
    try:
        process = psutil.Process(pid)
        process.wait(timeout=10)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return process.status() == psutil.STATUS_ZOMBIE
    return True
