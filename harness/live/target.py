"""The runtime under test, as the live drive sees it: its address, its process, and its admin port if it has one.

builtin   the harness starts `python -m runtime.server`, with admin port and journal
command   the harness starts the user's program, and observes it from outside
url       the server is running already, and is observed from outside
"""

import contextlib
import json
import secrets
import socket
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from harness.live.admin import Admin
from harness.live.child import Child, ChildDied, describe
from harness.load.preflight import Answer, NotReady, TargetProblem, first_answer
from harness.plan.plan import Plan
from harness.plan.server_config import server_tables
from harness.plan.target_policy import refused_command
from harness.telemetry.listeners import listener, port_of
from harness.telemetry.metrics import GAUGES, PRESETS, ScrapeFailed, fetch, read_metrics
from harness.telemetry.proc import read_process
from harness.trial.ports import RestartFailed
from runtime.server.config import ADMIN_TOKEN_ENV
from runtime.server.flags import RESTART
from scenarios.target import Target as Settings

STOP_GRACE_S = 20.0
METRICS_S = 5.0


class LiveTarget:
    """The port `harness.trial.ports.Target` in real time. The constructor of a subclass starts it or connects to it."""

    url: str
    answer: Answer
    """The model and the dialect of the target."""
    metrics_url: str | None = None
    admin: Admin | None = None
    pid: int | None = None
    _child: Child | None = None
    """The process that the harness started."""

    def tick(self, now_ns: int) -> None:
        if self._child is not None:
            self._child.heard()

    def restart(self) -> None:
        """See Target."""
        raise AssertionError("the plan refuses the restart of a target that we did not start")

    def gone(self) -> str | None:
        code = self.exit_code()
        return None if code is None else f"the server ended with {describe(code)}"

    def broke(self, error: BaseException) -> bool:
        """See Target. The runtime under test is another process."""
        return False

    def exit_code(self) -> int | None:
        return None if self._child is None else self._child.exit_code

    def facts(self) -> dict[str, str]:
        """The known facts of the target, for table meta."""
        found = {"url": self.url, "model": self.answer.model, "api": self.answer.api}
        return found | ({"dialect": "; ".join(self.answer.notes)} if self.answer.notes else {})

    def stop(self) -> None:
        """End the target's process if the harness started it."""
        if self._child is not None:
            self._child.stop(STOP_GRACE_S)


def start(plan: Plan, directory: Path, *, allow_command: bool) -> LiveTarget:
    """Start the target or connect to it, and wait for its first reply. Raises TargetProblem with one clear line."""
    kind = plan.scenario.target.kind
    if kind == "builtin":
        return Builtin(plan, directory)
    return Command(plan, directory, allow_command=allow_command) if kind == "command" else Remote(plan)


class Builtin(LiveTarget):
    """The built-in server under its supervisor. A restart keeps the ports and changes the serving process id."""

    def __init__(self, plan: Plan, directory: Path) -> None:
        target = plan.scenario.target
        tables = server_tables(target)
        tables["server"] |= {"admin": True, "outcomes": str(directory / "outcomes.jsonl")}
        config = directory / "server.json"
        config.write_text(json.dumps(tables))
        token = secrets.token_urlsafe(24)
        argv = [sys.executable, "-m", "runtime.server", "--config", str(config)]
        self._child = child = Child("server", argv, directory / "server.log", {ADMIN_TOKEN_ENV: token})
        self._ready_max_s = target.ready_max
        try:
            ready = child.wait_for("ready", target.ready_max)
        except (ChildDied, TimeoutError) as error:
            child.kill()
            raise TargetProblem(f"the built-in server did not start: {error}") from error
        self.url = f"http://127.0.0.1:{ready['port']}"
        self.metrics_url = f"{self.url}/metrics"
        self.pid = int(ready["pid"])
        self.admin = admin = Admin(ready["admin_port"], token)
        self._info = admin.info()
        self.answer = Answer(str(self._info["model"]), "completions")

    def restart(self) -> None:
        """Let the supervisor start another process; the ports stay."""
        assert self._child is not None
        self._child.signal(RESTART)
        try:
            self.pid = int(self._child.wait_for("ready", self._ready_max_s)["pid"])
        except (ChildDied, TimeoutError) as error:
            raise RestartFailed(str(error)) from error

    def tick(self, now_ns: int) -> None:
        for line in self._child.heard() if self._child is not None else ():
            if line.get("e") == "ready":
                self.pid = int(line["pid"])

    def facts(self) -> dict[str, str]:
        return {key: value if isinstance(value, str) else json.dumps(value) for key, value in self._info.items()}

    def stop(self) -> None:
        if self.admin is not None:
            self.admin.close()
        super().stop()


class Remote(LiveTarget):
    """A server that is running already. It is observed from outside."""

    def __init__(self, plan: Plan) -> None:
        target = plan.scenario.target
        assert target.url is not None, "the scenario reader requires target.url for kind url"
        self.url = target.url.rstrip("/").removesuffix("/v1")
        self.metrics_url, self.pid = target.metrics, target.pid
        if self.pid is not None and read_process(self.pid) is None:
            raise TargetProblem(f"target.pid {self.pid}: there is no such process; leave it out, or correct it")
        self.answer = first_answer(self.url, target.model, target.key_env)
        check_metrics(self.metrics_url, target.metrics_preset)

    def gone(self) -> str | None:
        """Known only with a process id. A new process may have replaced the old one, so the port is tried too."""
        if self.pid is None or read_process(self.pid) is not None or _listens(self.url):
            return None
        return f"process {self.pid} has ended and nothing listens at {self.url}"


class Command(LiveTarget):
    """The user's own program, which the harness starts and ends. It is ready when its port answers a request."""

    def __init__(self, plan: Plan, directory: Path, *, allow_command: bool) -> None:
        # Checked where the process starts, with the scenario that runs, so that no caller can omit the check.
        if (refusal := refused_command(plan.scenario, allow_command=allow_command)) is not None:
            raise TargetProblem(refusal)
        target = plan.scenario.target
        port = None if target.url else _free_port()
        self.url = (target.url or f"http://127.0.0.1:{port}").rstrip("/").removesuffix("/v1")
        self._argv = [word.replace("{port}", str(port or port_of(self.url))) for word in target.command]
        self._log, self._settings = directory / "server.log", target
        self.metrics_url = target.metrics
        if _listens(self.url):
            raise TargetProblem(f"{self.url} is in use already, so another server would be tested; free the port")
        self._start()

    def restart(self) -> None:
        """See Target."""
        assert self._child is not None
        self._child.stop(STOP_GRACE_S)
        try:
            self._start()
        except TargetProblem as problem:
            raise RestartFailed(str(problem)) from problem

    def _start(self) -> None:
        try:
            self._child = child = Child("server", self._argv, self._log)
        except OSError as error:
            raise TargetProblem(f"target.command can't be started: {error}") from error
        try:
            self.answer = _ready(child, self.url, self._settings)
            check_metrics(self.metrics_url, self._settings.metrics_preset)
            self.pid = _serving_pid(child.pid, self.url)
        except BaseException:
            child.stop(STOP_GRACE_S)
            raise


def check_metrics(url: str | None, preset: str) -> None:
    """Raises TargetProblem when the metrics page can't be read or holds none of the metrics that judges use."""
    if url is None:
        return
    try:
        found = read_metrics(fetch(url, METRICS_S), preset)
    except ScrapeFailed as error:
        raise TargetProblem(f"{url}: no metrics to read ({error}); correct target.metrics, or leave it out") from error
    if not any(name in found for name in GAUGES):
        names = ", ".join(PRESETS[preset][name].samples[0] for name in GAUGES)
        raise TargetProblem(f"{url} shows none of {names}; try another target.metrics_preset, or leave metrics out")


def _serving_pid(child: int, url: str) -> int:
    """The listening process if `child` started it, else `child`: a supervisor's own memory says little."""
    serving = listener(port_of(url))
    if serving is None or serving == child:
        return child
    with contextlib.suppress(psutil.Error):
        return serving if child in (parent.pid for parent in psutil.Process(serving).parents()) else child
    return child


def _listens(url: str) -> bool:
    """True when the address accepts a connection."""
    try:
        socket.create_connection((urlsplit(url).hostname or "", port_of(url)), timeout=1.0).close()
    except OSError:
        return False
    return True


def _ready(child: Child, url: str, target: Settings) -> Answer:
    """Wait until the target listens and no longer answers 503; return its first answer. Raises TargetProblem."""
    until = time.monotonic() + target.ready_max
    while True:
        trouble = f"nothing listens at {url}"
        try:
            if _listens(url):
                return first_answer(url, target.model, target.key_env, target.ready_max)
        except NotReady as not_yet:
            trouble = str(not_yet)
        if child.exit_code is not None:
            raise TargetProblem(f"the command ended with {describe(child.exit_code)}: {child.last_words()}")
        if time.monotonic() > until:
            raise TargetProblem(f"{trouble} after {target.ready_max:g} s: {child.last_words()}")
        time.sleep(0.2)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
