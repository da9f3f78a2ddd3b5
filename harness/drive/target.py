"""The runtime on trial, as the drive sees it: where to send load, what to watch, and a hand inside if there is one.

builtin   we start `python -m runtime.server` and own it; admin port, ledger, everything
command   we start the user's program and own its process; from outside only
url       it runs already; from outside only
"""

import json
import secrets
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from harness.drive.admin import Admin
from harness.drive.child import Child, ChildDied, describe
from harness.drive.preflight import TargetProblem, first_answer
from harness.plan.knobs import server_tables
from harness.plan.plan import Plan

ADMIN_TOKEN_ENV = "SEATRIAL_ADMIN_TOKEN"  # noqa: S105 - the variable's name
STOP_GRACE_S = 20.0


class Target(Protocol):
    """Started when made, or found running; `stop` gives back what we started."""

    url: str
    model: str
    api: str
    """completions | chat"""
    metrics_url: str | None
    admin: Admin | None

    @property
    def pid(self) -> int | None:
        """The process that serves now; None when we can't know."""
        ...

    def tick(self) -> None:
        """Take news from our child (a restart)."""
        ...

    def gone(self) -> str | None:
        """Why it will never serve again, as far as we can see; None while it may."""
        ...

    def exit_code(self) -> int | None:
        """Of the process that we started; None while it runs, or when we started none."""
        ...

    def facts(self) -> dict[str, str]:
        """What is known of it, for table meta."""
        ...

    def stop(self) -> None:
        """End what we started; nothing for a target that was there before us."""
        ...


def start(plan: Plan, directory: Path) -> Target:
    """Start or find the target and see it answer one request. Raises TargetProblem with one clear line."""
    kind = plan.scenario.target.kind
    if kind == "builtin":
        return Builtin(plan, directory)
    return Command(plan, directory) if kind == "command" else Remote(plan)


class Builtin:
    """Our server under its supervisor. Ports stay the same over restarts; the serving pid does not."""

    def __init__(self, plan: Plan, directory: Path) -> None:
        target = plan.scenario.target
        tables = server_tables(target)
        tables["server"] |= {"admin": True, "outcomes": str(directory / "outcomes.jsonl")}
        config = directory / "server.json"
        config.write_text(json.dumps(tables))
        token = secrets.token_urlsafe(24)
        argv = [sys.executable, "-m", "runtime.server", "--config", str(config)]
        self._child = Child("server", argv, directory / "server.log", {ADMIN_TOKEN_ENV: token})
        try:
            ready = self._child.wait_for("ready", target.ready_max)
        except (ChildDied, TimeoutError) as error:
            self._child.kill()
            raise TargetProblem(f"the built-in server did not start: {error}") from error
        self.url = f"http://127.0.0.1:{ready['port']}"
        self.metrics_url: str | None = f"{self.url}/metrics"
        self.admin: Admin | None = Admin(ready["admin_port"], token)
        self._pid = int(ready["pid"])
        self._info = self.admin.info()
        self.model, self.api = str(self._info["model"]), "completions"

    @property
    def pid(self) -> int | None:
        return self._pid

    def tick(self) -> None:
        for line in self._child.heard():
            if line.get("e") == "ready":
                self._pid = int(line["pid"])

    def gone(self) -> str | None:
        code = self._child.exit_code
        return None if code is None else f"the server ended with {describe(code)}"

    def exit_code(self) -> int | None:
        return self._child.exit_code

    def facts(self) -> dict[str, str]:
        return {key: value if isinstance(value, str) else json.dumps(value) for key, value in self._info.items()}

    def stop(self) -> None:
        if self.admin is not None:
            self.admin.close()
        self._child.stop(STOP_GRACE_S)


class Remote:
    """A server that runs already; we only look at it from outside."""

    def __init__(self, plan: Plan) -> None:
        target = plan.scenario.target
        assert target.url is not None, "the reader asks a url target for its url"
        self.url = target.url.rstrip("/").removesuffix("/v1")
        self.metrics_url = target.metrics
        self.admin: Admin | None = None
        self._pid = target.pid
        answer = first_answer(self.url, target.model, target.key_env)
        self.model, self.api = answer.model, answer.api

    @property
    def pid(self) -> int | None:
        return self._pid

    def tick(self) -> None:
        return

    def gone(self) -> str | None:
        return None

    def exit_code(self) -> int | None:
        return None

    def facts(self) -> dict[str, str]:
        return {"url": self.url, "model": self.model, "api": self.api}

    def stop(self) -> None:
        return


class Command:
    """The user's own program, which we start and end. It is ready once its port answers a request."""

    def __init__(self, plan: Plan, directory: Path) -> None:
        target = plan.scenario.target
        assert target.url is not None, "the reader asks a command target for its url"
        self.url = target.url.rstrip("/").removesuffix("/v1")
        self.metrics_url = target.metrics
        self.admin: Admin | None = None
        if _listens(self.url):
            raise TargetProblem(f"{self.url} is in use already, so we would try a stranger's server; free the port")
        self._child = Child("server", target.command, directory / "server.log")
        try:
            _wait(lambda: _listens(self.url), self._child, target.ready_max, self.url)
            answer = first_answer(self.url, target.model, target.key_env, target.ready_max)
            self.model, self.api = answer.model, answer.api
        except BaseException:
            self._child.stop(STOP_GRACE_S)
            raise

    @property
    def pid(self) -> int | None:
        return self._child.pid

    def tick(self) -> None:
        self._child.heard()

    def gone(self) -> str | None:
        code = self._child.exit_code
        return None if code is None else f"the server ended with {describe(code)}"

    def exit_code(self) -> int | None:
        return self._child.exit_code

    def facts(self) -> dict[str, str]:
        return {"url": self.url, "model": self.model, "api": self.api}

    def stop(self) -> None:
        self._child.stop(STOP_GRACE_S)


def _listens(url: str) -> bool:
    """Whether something accepts a connection there."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=1.0).close()
    except OSError:
        return False
    return True


def _wait(ready: Callable[[], bool], child: Child, timeout_s: float, url: str) -> None:
    until = time.monotonic() + timeout_s
    while not ready():
        if child.exit_code is not None:
            raise TargetProblem(f"the command ended with {describe(child.exit_code)}: {child.last_words()}")
        if time.monotonic() > until:
            raise TargetProblem(f"nothing listens at {url} after {timeout_s:g} s: {child.last_words()}")
        time.sleep(0.2)
