"""A recorded run, opened for reading: plan, history and verdict."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from assertions.history import History
from assertions.verdict import Verdict


@dataclass(frozen=True)
class Run:
    """`history` is read-only. It is open until `close`, or until the end of `with`."""

    directory: Path
    plan: dict[str, Any]
    history: History
    verdict: Verdict | None
    """None: the run was never judged."""

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Open a run directory. Raises FileNotFoundError with the name of a missing file."""
        at = Path(directory)
        plan = json.loads((at / "plan.json").read_text(encoding="utf-8"))
        path = at / "verdict.json"
        verdict = Verdict.from_json(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None
        return cls(at, plan, History.open(at / "run.sqlite"), verdict)

    def close(self) -> None:
        self.history.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
