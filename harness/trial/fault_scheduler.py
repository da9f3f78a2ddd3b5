"""Arms each occurrence of each fault when it is due, and heals all faults at the end of the trial.

The server counts hits and heals by itself (times, for, ttl, lost heartbeat); the scheduler only follows the times of
the plan. A call that fails is repeated at the next tick, so that a restart of the server loses no fault.

A restart of the server ends the faults armed in the old process. The server arms `persist` faults again by itself.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from faults.spec import FaultSpec
from harness.plan.occurrences import Occurrence

GONE = "gone"
"""State of a fault whose process has ended and which the new process does not know. Only the scheduler uses it."""
OVER = ("healed", "cleaned", "invalid", GONE)


class Injector(Protocol):
    """The part of the admin port that a fault scheduler needs."""

    def arm(self, spec: FaultSpec) -> None:
        """Arm one occurrence."""
        ...

    def heal(self, fault: str) -> None:
        """End every occurrence of `fault`."""
        ...

    def states(self) -> list[dict[str, Any]]:
        """All faults, each with id, n, state, first_ns and heal_ns."""
        ...


class FaultScheduler:
    """The caller calls `tick` several times a second during the trial, and `heal_all` at its end."""

    def __init__(self, occurrences: Sequence[Occurrence]) -> None:
        self._due = list(occurrences)
        self._armed: dict[tuple[str, int], FaultSpec] = {}
        self._seen: dict[tuple[str, int], dict[str, Any]] = {}

    @property
    def active(self) -> list[str]:
        """Ids of the faults that are armed and not over, sorted."""
        return sorted({key[0] for key in self._armed if not self._over(key)})

    def tick(self, injector: Injector, elapsed_s: float) -> None:
        """Read the states, then arm each occurrence that is due `elapsed_s` after the trial began.

        Raises AdminGone when the server does not answer.
        """
        if self._armed and (self._due or self.active):
            self._read_states(injector)
        for occurrence in list(self._due):
            if self._ready(occurrence, elapsed_s):
                injector.arm(occurrence.spec)
                self._due.remove(occurrence)
                self._armed[occurrence.spec.id, occurrence.spec.n] = occurrence.spec

    def heal_all(self, injector: Injector) -> None:
        """Heal every armed fault. An occurrence that was never due stays unarmed, and the judges see that.

        Raises AdminGone when the server does not answer; safe to repeat.
        """
        if self._armed:
            self._read_states(injector)
        for fault in self.active:
            injector.heal(fault)
        if self._armed:
            self._read_states(injector)

    def _read_states(self, injector: Injector) -> None:
        states = {(state["id"], state["n"]): state for state in injector.states()}
        self._seen.update(states)
        for key in self._armed.keys() - states.keys():
            if not self._over(key):
                self._seen[key] = {"first_ns": None, **self._seen.get(key, {}), "state": GONE}

    def _over(self, key: tuple[str, int]) -> bool:
        return self._seen.get(key, {}).get("state") in OVER

    def _ready(self, occurrence: Occurrence, elapsed_s: float) -> bool:
        if occurrence.at_s is not None:
            return elapsed_s >= occurrence.at_s
        assert occurrence.after is not None
        fault, _, what = occurrence.after.partition(".")
        states = [state for key, state in self._seen.items() if key[0] == fault]
        if any(state["state"] == GONE for state in states):
            return True  # the fault ended its process, so its state will not change any more
        if what == "fired":
            return any(state["first_ns"] is not None for state in states)
        return any(state["state"] in ("healed", "cleaned") for state in states)
