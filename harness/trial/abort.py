"""The scenario's abort rules: a condition that has held for its whole duration ends the run early."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scenarios.expr import Abort


@dataclass(slots=True)
class AbortWatch:
    """Checks the abort rules at each `tick`. An unknown figure restarts the rule's duration, so it never aborts."""

    rules: Sequence[Abort]
    _since_ns: dict[int, int] = field(default_factory=dict)

    def tick(self, now_ns: int, figures: Mapping[str, float]) -> str | None:
        """Return the reason to end the run now, or None."""
        for index, rule in enumerate(self.rules):
            value = figures.get(rule.when.name)
            if value is None or not rule.when.holds(value):
                self._since_ns.pop(index, None)
                continue
            since_ns = self._since_ns.setdefault(index, now_ns)
            if now_ns - since_ns >= rule.for_s * 1e9:
                return f"{rule.when.name} = {value:.4g}: {rule.when.op} {rule.when.value:g} for {rule.for_s:g} s"
        return None
