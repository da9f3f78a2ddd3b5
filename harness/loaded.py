"""A finished run, opened for reading: plan, history and verdict."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from assertions.history import History
from assertions.verdict import Verdict


@dataclass(frozen=True)
class Run:
    """`history` is read-only and open until `close`, or until the end of `with`."""

    directory: Path
    plan: dict[str, Any]
    history: History
    verdict: Verdict | None
    """None: it was never judged."""

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Raises FileNotFoundError naming what a run directory lacks."""
        at = Path(directory)
        plan = json.loads((at / "plan.json").read_text(encoding="utf-8"))
        verdict = at / "verdict.json"
        said = Verdict.from_json(json.loads(verdict.read_text(encoding="utf-8"))) if verdict.is_file() else None
        return cls(at, plan, History.open(at / "run.sqlite"), said)

    def close(self) -> None:
        """Let the history go."""
        self.history.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
