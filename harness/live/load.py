"""The load process, as the drive sees it: a config file, commands to it, and events from it."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.live.child import Child, ChildDied, describe
from harness.live.target import LiveTarget
from harness.load.breaker import politeness_of
from harness.plan.canary import canaries_of
from harness.plan.plan import Plan
from harness.trial.ports import LoadDied

READY_S = 60.0


class LoadProcess:
    """The port `harness.trial.ports.Load` over a process, whose clock is CLOCK_MONOTONIC.

    The constructor starts the process, which sends no request before `begin`. Raises LoadDied if it fails.
    """

    def __init__(self, plan: Plan, target: LiveTarget, directory: Path) -> None:
        config = directory / "load.json"
        config.write_text(json.dumps(load_config(plan, target, directory), indent=1))
        self._child = Child("load", [sys.executable, "-m", "harness.load", str(config)], directory / "load.log")
        self.breaker: str | None = None
        """The reason why the load stopped by itself: a limit, or the protection of a remote target."""
        self.idle = False
        """The load is paused, and no request is open."""
        self.finished = False
        """The load was stopped, and every reply is recorded."""
        try:
            self._child.wait_for("ready", READY_S)
        except (ChildDied, TimeoutError) as error:
            self._child.kill()
            raise LoadDied(str(error)) from error

    @property
    def pid(self) -> int:
        """The pid of the load process."""
        return self._child.pid

    def begin(self, t0_ns: int) -> None:
        self._child.say({"cmd": "start", "t0_ns": t0_ns})

    def phase(self, name: str, n: int) -> None:
        self._child.say({"cmd": "phase", "name": name, "n": n})

    def pause(self) -> None:
        self.idle = False
        self._child.say({"cmd": "pause"})

    def resume(self) -> None:
        self._child.say({"cmd": "resume"})

    def stop(self, drain_s: float) -> None:
        self._child.say({"cmd": "stop", "drain_s": drain_s})

    def tick(self) -> None:
        """Process the events of the process. Raises LoadDied when it failed or ended by itself."""
        code = self._child.exit_code  # read first, so that the events before its end are all processed below
        for line in self._child.heard():
            self._take(line)
        if code is not None and not self.finished:
            raise LoadDied(f"the load process ended with {describe(code)}: {self._child.last_words()}", code)

    def kill(self) -> None:
        """End the process; safe to repeat."""
        self._child.stop(0.5)

    def _take(self, line: dict[str, Any]) -> None:
        match line.get("e"):
            case "idle":
                self.idle = True
            case "stopped" if line.get("failure") is None:
                self.finished = True
            case "breaker":
                self.breaker = str(line.get("why"))
            case "failed":
                raise LoadDied(f"the load process failed: {line.get('failure')}")


def load_config(plan: Plan, target: LiveTarget, directory: Path) -> dict[str, Any]:
    """The config of the load process, which `python -m harness.load` reads."""
    scenario = plan.scenario
    config: dict[str, Any] = {
        "config": 1,
        "spool": str(directory / "requests.jsonl"),
        "url": target.url,
        **asdict(target.answer),
        "seed": scenario.seed,
        "key_env": scenario.target.key_env,
        "load": [load.model_dump(mode="json") for load in scenario.load],
        "canary": canaries_of(scenario, plan.capabilities).model_dump(),
        "politeness": politeness_of(scenario).model_dump(),
    }
    if "ledger" in plan.capabilities:
        config["body"] = {"return_token_ids": True}  # the client's own count, to compare with the server's journal
    return config
