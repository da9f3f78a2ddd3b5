"""The record of one trial of one night: its state, its judges' results, and its figures."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from assertions.verdict import Judged, State
from scenarios.metrics import Unit, find

UNITS: Mapping[Unit, str] = {
    Unit.SECONDS: "s",
    Unit.SHARE: "share",
    Unit.PER_SECOND: "/s",
    Unit.BYTES: "bytes",
    Unit.BYTES_PER_HOUR: "bytes/h",
    Unit.COUNT_PER_HOUR: "/h",
}


@dataclass(frozen=True)
class Trial:
    """One row of trials.sqlite with its judges. `exit` is the exit code of its process, or minus a signal's number."""

    night: str
    scenario: str
    control: bool
    host_class: str
    started: str
    """UTC, ISO 8601."""
    state: State
    exit: int
    wall_s: float
    because: str | None = None
    """The reason for a missing or partial verdict."""
    run_id: str | None = None
    run_dir: str | None = None
    commit: str | None = None
    dirty: bool = False
    seed: int | None = None
    drive: str | None = None
    means: str = ""
    replay: str | None = None
    judges: tuple[Judged, ...] = ()

    def said(self, name: str) -> Judged | None:
        """The result of the judge `name`, or None."""
        return next((one for one in self.judges if one.name == name), None)


@dataclass(frozen=True)
class Scalar:
    """One number that is compared over nights."""

    metric: str
    value: float
    unit: str | None


def scalars(trial: Trial) -> Iterator[Scalar]:
    """Yield every number of a trial under a name that is equal in every night."""
    yield Scalar("wall_s", trial.wall_s, "s")
    for one in trial.judges:
        for name, value in one.figures.items():
            yield Scalar(f"{one.name}: {name}", float(value), _unit(one.name, name))


def _unit(judge: str, figure: str) -> str | None:
    """The unit of a figure, from its own name or from the metric that its check is about."""
    if figure.endswith("_s"):
        return "s"
    if figure.endswith("_bytes") or figure.startswith("rss_per_"):
        return "bytes"
    if figure == "share" or figure.endswith("_share"):
        return "share"
    if figure in ("value", "per_hour"):
        known = find(judge.split()[0])
        return UNITS[known[0].unit] if known else None
    return None
