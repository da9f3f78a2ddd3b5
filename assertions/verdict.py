"""The results of a run's judges, the verdict folded from them, and the exit code.

The states are PASS, FAIL and UNKNOWN after a run, and NOT_JUDGED for a judge that could not decide by its plan.
Required judges fold FAIL > UNKNOWN > PASS; observed judges are only shown.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any


class State(StrEnum):
    PASS = "PASS"  # noqa: S105  (a state, not a password)
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"
    NOT_JUDGED = "NOT_JUDGED"


class Level(StrEnum):
    REQUIRED = "required"
    OBSERVE = "observe"


EXIT_CODES: Mapping[State, int] = {State.PASS: 0, State.FAIL: 1, State.UNKNOWN: 2}


@dataclass(frozen=True)
class Evidence:
    """One observation: its time (ns since the run's start), its request, and a text."""

    t_ns: int | None
    request: str | None
    text: str


@dataclass(frozen=True)
class Judged:
    """The result of one judge. Texts are ready to print; `figures` holds numbers, so that nights can be compared.

    `because` is the reason for UNKNOWN or NOT_JUDGED, and `to_decide` is a change that would let the judge decide.
    """

    name: str
    state: State
    summary: str
    level: Level = Level.REQUIRED
    limit: str | None = None
    observed: str | None = None
    interval: str | None = None
    smallest_visible: str | None = None
    since_ns: int | None = None
    fault: str | None = None
    owner: str | None = None
    evidence: tuple[Evidence, ...] = ()
    because: str | None = None
    to_decide: str | None = None
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def required(self) -> bool:
        return self.level is Level.REQUIRED

    @property
    def text(self) -> str:
        """The summary, or the reason why the judge could not decide."""
        return self.summary or self.because or ""

    def to_json(self) -> dict[str, Any]:
        record = {each.name: getattr(self, each.name) for each in fields(self)}
        record["state"], record["level"] = str(self.state), str(self.level)
        record["evidence"] = [{"t_ns": e.t_ns, "request": e.request, "text": e.text} for e in self.evidence]
        record["figures"] = {name: float(value) for name, value in self.figures.items()}
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Judged":
        values = dict(record)
        values["state"], values["level"] = State(values["state"]), Level(values["level"])
        values["evidence"] = tuple(Evidence(**each) for each in values.get("evidence", ()))
        return cls(**values)


@dataclass(frozen=True)
class RunIdentity:
    """The identity of a run, and the command that repeats it (filled by the harness when it knows the paths)."""

    run_id: str
    seed: int
    commit: str | None
    dirty: bool
    seatrial: str
    scenario: str
    means: str
    replay: str | None = None


@dataclass(frozen=True)
class Verdict:
    state: State
    judges: tuple[Judged, ...]
    run: RunIdentity

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.state]

    def to_json(self) -> dict[str, Any]:
        run = {each.name: getattr(self.run, each.name) for each in fields(self.run)}
        return {
            "verdict": 1,
            "state": str(self.state),
            "exit": self.exit_code,
            **run,
            "judges": [judged.to_json() for judged in self.judges],
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Verdict":
        run = RunIdentity(**{each.name: record[each.name] for each in fields(RunIdentity)})
        return cls(State(record["state"]), tuple(Judged.from_json(each) for each in record["judges"]), run)


def fold(judges: Iterable[Judged]) -> State:
    """Fold the required judges: FAIL > UNKNOWN > PASS. Without any required result the state is UNKNOWN."""
    states = {judged.state for judged in judges if judged.required}
    for state in (State.FAIL, State.UNKNOWN, State.PASS):
        if state in states:
            return state
    return State.UNKNOWN
