"""Restarts, signals and orphans, with real processes. Every wait is on a pipe, a pidfd or an exit, and has an end."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from runtime.server.config import ADMIN_TOKEN_ENV
from runtime.server.flags import RESTART
from tests.runtime.server.conftest import TOKEN
from tests.runtime.server.fake import WAIT_S

ROOT = Path(__file__).parents[3]
QUICK = {"pause_s": 0.01, "pause_s_max": 0.02, "restarts_max": 4, "stop_s_max": 5.0}
PARENT = [sys.executable, "-m", "tests.runtime.server.parent"]
SAYS_PID = "import os, signal; print(os.getpid(), flush=True); "


class Supervised:
    """A supervisor in its own process; its child writes to `line`."""

    def __init__(self, path: Path, *command: str, sockets: int = 0, **policy: float) -> None:
        self._path = path
        self.process = subprocess.Popen(
            [*PARENT, str(path), json.dumps({**QUICK, **policy}), str(sockets), *command],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            env={**os.environ, ADMIN_TOKEN_ENV: TOKEN},
        )

    def line(self) -> str:
        """The next line of the child."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], WAIT_S)
        assert ready, "the child said nothing"
        return self.process.stdout.readline().decode().strip()

    def wait(self) -> int:
        return self.process.wait(WAIT_S)

    def events(self, kind: str) -> list[dict[str, Any]]:
        rows = [json.loads(line) for line in self._path.read_text().splitlines()]
        return [row for row in rows if row["e"] == "event" and row["kind"] == kind]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Any]:
    """`supervise(*command, **policy)`"""
    begun: list[Supervised] = []

    def begin(*command: str, **more: Any) -> Supervised:
        begun.append(Supervised(tmp_path / "outcomes.jsonl", *command, **more))
        return begun[-1]

    yield begin
    for each in begun:
        each.close()


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", code)


def gone(pid: int) -> bool:
    """Waits for the end of a process that need not be our child."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], WAIT_S)[0])
    finally:
        os.close(fd)


def test_70_is_started_again_and_0_is_the_end(supervise: Any) -> None:
    code = "import sys; sys.exit(0 if sys.argv[1] == '2' else 70)"
    run = supervise(*python(code), "{restarts}")
    assert run.wait() == 0
    assert [event["value"] for event in run.events("start")] == [0, 1, 2]
    assert [event["value"] for event in run.events("exit")] == [70, 70, 0]


def test_a_crash_is_started_again_and_told_as_a_negative_code(supervise: Any) -> None:
    code = "import os, sys; os.kill(os.getpid(), 9 if sys.argv[1] == '0' else 0)"
    run = supervise(*python(code), "{restarts}")
    assert run.wait() == 0
    assert [event["value"] for event in run.events("exit")] == [-9, 0]


def test_one_that_never_lives_is_given_up(supervise: Any) -> None:
    run = supervise(*python("import sys; sys.exit(70)"))
    assert run.wait() == 70
    assert len(run.events("exit")) == QUICK["restarts_max"] + 1
    assert "not started again" in run.events("gave_up")[0]["detail"]


def test_bad_settings_are_not_tried_again(supervise: Any) -> None:
    run = supervise(*python("import sys; sys.exit(4)"))
    assert run.wait() == 4
    assert len(run.events("start")) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_given_on_and_the_childs_code_is_ours(supervise: Any, number: signal.Signals) -> None:
    code = f"import sys; signal.signal({int(number)}, lambda *_: sys.exit(5)); print('up', flush=True); signal.pause()"
    run = supervise(*python("import signal; " + code))
    assert run.line() == "up"
    run.process.send_signal(number)
    assert run.wait() == 5
    assert [event["value"] for event in run.events("exit")] == [5]


def test_a_restart_that_is_asked_for_ends_the_child_in_good_order_and_starts_another(supervise: Any) -> None:
    code = "signal.signal(15, lambda *_: sys.exit(0)); print('up', flush=True); signal.pause()"
    run = supervise(*python("import signal, sys; " + code))
    for _ in range(QUICK["restarts_max"] + 2):  # none of them counts as one of a server that never lives
        assert run.line() == "up"
        run.process.send_signal(RESTART)
    assert run.line() == "up"
    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 0
    assert {event["value"] for event in run.events("exit")} == {0}
    assert len(run.events("start")) == QUICK["restarts_max"] + 3


def test_a_child_that_ignores_sigterm_is_killed(supervise: Any) -> None:
    code = "signal.signal(15, signal.SIG_IGN); print('up', flush=True); [signal.pause() for _ in range(99)]"
    run = supervise(*python("import signal; " + code), stop_s_max=0.1)
    assert run.line() == "up"
    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 128 + 9


def test_kill_of_the_supervisor_leaves_no_orphan(supervise: Any) -> None:
    run = supervise(*python(SAYS_PID + "signal.signal(15, signal.SIG_IGN); signal.pause()"))
    pid = int(run.line())
    run.process.kill()
    run.wait()
    assert gone(pid)


def test_what_the_child_had_started_goes_with_it(supervise: Any) -> None:
    code = "import os, signal; os.fork() and os._exit(0); print(os.getpid(), flush=True); signal.pause()"
    run = supervise(*python(code))
    assert run.wait() == 0
    assert run.process.stdout is not None
    said = run.process.stdout.readline()
    assert not said or gone(int(said))


def test_the_death_of_the_supervisors_own_parent_ends_all(tmp_path: Path) -> None:
    """A test run or harness that is killed must not leave servers behind."""
    child = python(SAYS_PID + "signal.pause()")
    command = [
        sys.executable,
        "-m",
        "tests.runtime.server.parent",
        str(tmp_path / "o.jsonl"),
        json.dumps(QUICK),
        "0",
        *child,
    ]
    grand = f"import subprocess, signal; p = subprocess.Popen({command!r}); print(p.pid, flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", grand], cwd=ROOT, stdout=subprocess.PIPE) as top:
        assert top.stdout is not None
        supervisor, server = int(top.stdout.readline()), int(top.stdout.readline())
        top.kill()
        assert gone(server)
        assert gone(supervisor)


def test_a_lost_engine_comes_back_on_the_same_port_with_only_what_persists(supervise: Any) -> None:
    flags = ["--admin", "--fd", "{fd0}", "--admin-fd", "{fd1}", "--parent", "{pid}", "--restarts", "{restarts}"]
    run = supervise(sys.executable, "-m", "tests.runtime.server.child", "--outcomes", "{outcomes}", *flags, sockets=2)
    first = json.loads(run.line())
    url, admin = f"http://127.0.0.1:{first['port']}", f"http://127.0.0.1:{first['admin_port']}/admin/faults"
    with httpx.Client(timeout=WAIT_S, headers={"Authorization": f"Bearer {TOKEN}"}) as http:
        specs = [{"id": name, "n": 0, "do": "kv.take: oom", "persist": name == "stays"} for name in ("stays", "goes")]
        assert http.post(admin, json=specs).status_code == 200
        assert http.post(f"{url}/v1/completions", json={"prompt": "hi"}).json()["choices"][0]["text"] == "HI"
        assert http.post(f"{url}/v1/completions", json={"prompt": "die", "max_tokens": 999}).status_code == 503
        second = json.loads(run.line())
        assert second["port"] == first["port"]
        assert second["pid"] != first["pid"]
        assert [each["id"] for each in http.get(admin).json()["faults"]] == ["stays"]
        assert http.post(f"{url}/v1/completions", json={"prompt": "hi"}).status_code == 200
    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 0
    assert [event["value"] for event in run.events("exit")] == [70, 0]
