"""JudgeContext holds all that a judge may read: history, plan, and results that several judges share."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from assertions.blame import Blame
from assertions.history import History
from assertions.plan_view import PlanView
from assertions.rows import Event, Mask
from assertions.verdict import Evidence, Judged, Level
from assertions.windows import FaultWindow, inside, touched, windows

MEASURED = ("baseline", "trial", "recovery")
_WORD = re.compile(r"[\w.-]+")
SHOWN = 5  # items of evidence in a verdict; the others are counted


@dataclass(frozen=True)
class JudgeContext:
    history: History
    plan: PlanView

    @cached_property
    def windows(self) -> tuple[FaultWindow, ...]:
        return windows(self.history, self.plan)

    @property
    def cut_short(self) -> str | None:
        return self.history.cut_short

    @cached_property
    def touched(self) -> Mask:
        """A mask of the requests whose life overlaps a fault window."""
        return touched(self.history.requests, self.windows)

    @cached_property
    def measured(self) -> Mask:
        """A mask of the load and probe requests whose intended time lies in baseline, trial or recovery.

        All load and probe requests count when no phase was recorded.
        """
        requests = self.history.requests
        ours = requests.kind.among("load", "probe", None)
        intervals = self.intervals(*MEASURED)
        return ours & inside(requests.intended_ns, intervals) if self.history.phases else ours

    def intervals(self, *names: str) -> list[tuple[float, float]]:
        """The (start, end) in ns of the phases with these names.

        A phase that never ended lasts to the end of the history.
        """
        return [
            (phase.start_ns, phase.end_ns if phase.end_ns is not None else self.history.end_ns)
            for phase in self.history.phases
            if phase.name in names
        ]

    @cached_property
    def client_of(self) -> dict[str, str]:
        """The client's request id for each request id of the server, from table served."""
        return {row.server_id: row.request for row in self.history.served() if row.server_id and row.request}

    def shown_by(self, window: FaultWindow, event: Event) -> bool:
        """True when the fault of `window` may have caused `event`.

        The event lies in the window, or it is later and names a request that the fault hit: damage to swapped KV is
        only seen when it is read again.
        """
        if window.holds(event.t_ns):
            return True
        hit = {self.client_of.get(name, name) for fire in window.fires for name in fire.requests}
        return event.t_ns >= window.first_ns and any(
            self.client_of.get(word, word) in hit for word in _WORD.findall(event.detail)
        )

    def evidence_of(self, event: Event, prefix: str = "") -> Evidence:
        """The event as evidence, with the first request that it names. The server's request ids become the client's."""
        text = _WORD.sub(lambda word: self.client_of.get(word[0], word[0]), event.detail)
        named = next((word for word in _WORD.findall(text) if word in self.history.requests.row_of), None)
        return Evidence(event.t_ns, named, prefix + text)

    @cached_property
    def damaged(self) -> str | None:
        """A reason when recording lost lines, so that a missing row proves nothing; None when it lost none."""
        for event in self.history.events:
            if event.kind in ("outcomes_lost", "spool_garbage"):
                return f"{event.kind}: {event.value or 0:g} lines could not be written or read ({event.detail})"
        return None

    @cached_property
    def blame(self) -> Blame:
        """The links between the faults that fired and what broke."""
        return Blame(self.history, self.windows, self.client_of)

    def window_at(self, t_ns: float) -> FaultWindow | None:
        return next((window for window in self.windows if window.holds(t_ns)), None)


@dataclass(frozen=True)
class Missing:
    """The reason why a judge cannot decide, and the change (`cure`) that would let it decide."""

    because: str
    cure: str


@dataclass(frozen=True)
class Judge:
    """A judge. `needs` reads the plan and returns None when the judge can decide; `decide` reads the history.

    The result of a `timing` judge is void when the load generator was late. `asked` marks a check of the scenario: one
    that cannot be decided is refused before the run. `note` is the text that `seatrial plan` prints beside the judge.
    """

    name: str
    decide: Callable[[JudgeContext], Judged]
    needs: Callable[[PlanView], Missing | None] = lambda plan: None
    level: Level = Level.REQUIRED
    timing: bool = False
    asked: bool = False
    note: Callable[[PlanView], str | None] = field(default=lambda plan: None)


def shown(evidence: list[Evidence], most: int = SHOWN) -> tuple[Evidence, ...]:
    """The first `most` items in order of time, and one item that counts the others."""
    ordered = sorted(evidence, key=lambda e: (e.t_ns is None, e.t_ns or 0, e.request or "", e.text))
    if len(ordered) <= most:
        return tuple(ordered)
    return (*ordered[:most], Evidence(None, None, f"and {len(ordered) - most} more"))
