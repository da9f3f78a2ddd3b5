"""Sampled series of a run with times in seconds, and the reason for an absent series."""

import numpy as np

from assertions.history import Floats
from harness.report.figures import S_PER_NS
from harness.report.source import RunFiles

SeriesPoints = tuple[Floats, Floats]  # seconds since the run's start, value


def samples(source: RunFiles, name: str) -> SeriesPoints:
    """The samples of a series in order of time; empty when there are none (see `absence`)."""
    series = source.history.samples(name)
    return (np.zeros(0), np.zeros(0)) if series is None else (series.t_ns * S_PER_NS, series.value)


def absence(source: RunFiles, name: str) -> str | None:
    """The reason why a series has no values; None when it has some."""
    series = source.history.samples(name)
    if series is None:
        lost = dict(source.missing).get("run.sqlite")
        return f"no history: {lost}" if lost else "no sensor: not recorded in this run"
    if series.absent:
        return f"no sensor: {series.absent}"
    return None if len(series.value) else "no sensor: it was planned and gave no sample"


def rise_per_s(counter: SeriesPoints) -> SeriesPoints:
    """The rise per second between samples of a counter. A fall is a restart of the server and gives no value."""
    t_s, total = counter
    step_s = np.diff(t_s)
    sound = (np.diff(total) >= 0) & (step_s > 0)
    return t_s[1:][sound], (np.diff(total)[sound] / step_s[sound])


def period_s(t_s: Floats) -> float:
    return float(np.median(np.diff(t_s))) if len(t_s) > 1 else 1.0
