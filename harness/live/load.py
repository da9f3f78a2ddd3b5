"""The load process, as the drive sees it: a config, a few commands, and news that come back."""

import json
import sys
from pathlib import Path
from typing import Any

from harness.live.child import Child, ChildDied, describe
from harness.live.target import LiveTarget
from harness.load.breaker import UNLIMITED
from harness.plan.canary import canaries_of
from harness.plan.plan import Plan
from harness.trial.ports import LoadDied
from scenarios.rules_target import is_remote
from scenarios.schema import Scenario

READY_S = 60.0


class LoadProcess:
    """Started when made, silent until `begin`."""

    def __init__(self, plan: Plan, target: LiveTarget, directory: Path) -> None:
        config = directory / "load.json"
        config.write_text(json.dumps(load_config(plan, target, directory), indent=1))
        self._child = Child("load", [sys.executable, "-m", "harness.load", str(config)], directory / "load.log")
        self.breaker: str | None = None
        """Why the load stopped by itself, sparing a target that is not ours."""
        self.idle = False
        """Paused, with nothing in flight."""
        self.finished = False
        """Stopped as told, all replies written."""
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
        """The schedule starts at `t0_ns` (CLOCK_MONOTONIC)."""
        self._child.say({"cmd": "start", "t0_ns": t0_ns})

    def phase(self, name: str, n: int) -> None:
        """Note a phase in the load's own record."""
        self._child.say({"cmd": "phase", "name": name, "n": n})

    def pause(self) -> None:
        """Send no more until `resume`; `idle` tells when the last reply is in."""
        self.idle = False
        self._child.say({"cmd": "pause"})

    def resume(self) -> None:
        """Go on where the schedule stood still."""
        self._child.say({"cmd": "resume"})

    def stop(self, drain_s: float) -> None:
        """Send no more, let open replies come in for up to `drain_s`; `finished` tells when it is over."""
        self._child.say({"cmd": "stop", "drain_s": drain_s})

    def tick(self) -> None:
        """Take news. Raises LoadDied when it ended without being told, or broke."""
        code = self._child.exit_code  # before the news, so that its last words are among them
        for line in self._child.heard():
            self._take(line)
        if code is not None and not self.finished:
            raise LoadDied(f"the load process ended with {describe(code)}: {self._child.last_words()}", code)

    def kill(self) -> None:
        """End it without a word; safe to repeat."""
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
                raise LoadDied(f"the load process broke: {line.get('failure')}")


def load_config(plan: Plan, target: LiveTarget, directory: Path) -> dict[str, Any]:
    """The config of the load process, which `python -m harness.load` reads."""
    scenario = plan.scenario
    config: dict[str, Any] = {
        "config": 1,
        "spool": str(directory / "requests.jsonl"),
        "url": target.url,
        "model": target.model,
        "seed": scenario.seed,
        "api": target.api,
        "wants_done": target.wants_done,
        "leave_out": list(target.leave_out),
        "key_env": scenario.target.key_env,
        "load": [load.model_dump(mode="json") for load in scenario.load],
        "canary": canaries_of(scenario, plan.capabilities).model_dump(),
        "politeness": _politeness(scenario),
    }
    if "ledger" in plan.capabilities:
        config["body"] = {"return_token_ids": True}  # the client's own count, to hold against the server's ledger
    return config


def _politeness(scenario: Scenario) -> dict[str, Any]:
    """The scenario's limits on top of the politeness that its target is due.

    Ours is there to be broken. A server on this machine is its user's own and on trial: a slow one is a finding, no
    reason to spare it. Any other is spared when it suffers.
    """
    limits = scenario.limits
    given = {
        "requests_max": limits.requests,
        "tokens_max": limits.tokens,
        "in_flight_max": limits.in_flight,
        "rate_max_per_s": limits.rate,
    }
    if scenario.target.kind == "builtin":
        return UNLIMITED.model_dump() | given
    return ({} if is_remote(scenario.target) else {"slow_factor_max": None}) | given
