"""Arms each occurrence of each fault when its time has come, and heals everything at the end of the trial.

The server counts hits and heals by itself (times, for, ttl, lost heartbeat); here is only the clock of the plan. A
call that does not get through is tried again at the next tick: a server that restarts is no reason to lose a fault.

A restart ends what was armed in the process before it, but for `persist` faults, which the server arms again itself.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from faults.spec import FaultSpec
from harness.plan.occurrences import Occurrence

GONE = "gone"
"""A state of ours: the process that it was armed in is no more, and the next one does not know it."""
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
        """All faults, with state, first_ns, heal_ns."""
        ...


class FaultScheduler:
    """`tick` it a few times a second during the trial; `heal_all` at its end."""

    def __init__(self, occurrences: Sequence[Occurrence], injector: Injector) -> None:
        self._due = list(occurrences)
        self._injector = injector
        self._armed: dict[tuple[str, int], FaultSpec] = {}
        self._seen: dict[tuple[str, int], dict[str, Any]] = {}

    @property
    def pending(self) -> bool:
        """True when an occurrence waits for its time, or an armed one has not healed."""
        return bool(self._due) or any(not self._over(key) for key in self._armed)

    @property
    def active(self) -> list[str]:
        """Faults that are armed and not over, for people."""
        return sorted({key[0] for key in self._armed if not self._over(key)})

    def tick(self, elapsed_s: float) -> None:
        """Look at the states, then arm what is due `elapsed_s` after the trial began. Raises what arming raises."""
        if self._armed and (self._due or self.active):
            self._look()
        for occurrence in list(self._due):
            if self._ready(occurrence, elapsed_s):
                self._injector.arm(occurrence.spec)
                self._due.remove(occurrence)
                self._armed[occurrence.spec.id, occurrence.spec.n] = occurrence.spec

    def heal_all(self) -> None:
        """End whatever is still armed; what was never due stays unarmed and will be judged as such.

        Raises what healing raises; safe to repeat.
        """
        if self._armed:
            self._look()
        for fault in self.active:
            self._injector.heal(fault)
        if self._armed:
            self._look()

    def _look(self) -> None:
        states = {(state["id"], state["n"]): state for state in self._injector.states()}
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
            return True  # whoever waits for a kill waits for the restart: nobody is left to say more of it
        if what == "fired":
            return any(state["first_ns"] is not None for state in states)
        return any(state["state"] in ("healed", "cleaned") for state in states)
