"""The timeline of a run: charts of load, latency, tokens, KV and memory, and bands of phases, faults and canaries."""

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from assertions.history import Floats, Requests
from harness.report.bands import canaries, compared, fires
from harness.report.downsample import POINTS_MAX, grid, min_max
from harness.report.figures import S_PER_NS, percentile
from harness.report.outcomes import GOOD, ttft_s
from harness.report.phases import PhaseRow, phase_rows
from harness.report.series import SeriesPoints, absence, period_s, rise_per_s, samples
from harness.report.source import RunFiles

REQUESTS_PER_WINDOW = 10  # with fewer, the curve of a steady load is only noise
BY_PHASE = ("server.generation_tokens", "kv.usage", "server.rss_anon")


@dataclass(frozen=True)
class ChartLine:
    key: str  # colour name in the style sheet
    label: str
    values: tuple[float | None, ...]  # None is a gap without samples


@dataclass(frozen=True)
class Chart:
    """Lines over one time axis, at most POINTS_MAX points each."""

    key: str
    title: str
    unit: str  # unit as `figures.quantity` takes it
    note: str
    x_s: tuple[float, ...] = ()
    lines: tuple[ChartLine, ...] = ()
    absent: str | None = None  # the reason when there is nothing to draw
    log: bool = False


@dataclass(frozen=True)
class Timeline:
    end_s: float
    charts: tuple[Chart, ...]
    phases: tuple[PhaseRow, ...]
    fires: tuple[tuple[str, tuple[float, ...]], ...]  # (fault id, times of its fires)
    canaries: tuple[tuple[float, str], ...]  # (time, state)
    compared: tuple[tuple[str, str, int], ...]  # counts of canaries and bystanders: (kind, state, number)


def timeline(source: RunFiles, requests: Requests) -> Timeline:
    sampled = {name: samples(source, name) for name in BY_PHASE}
    tokens = rise_per_s(sampled["server.generation_tokens"])
    phases = tuple(phase_rows(source.history, sampled, tokens))
    end_s = max([0.0, *(phase.end_s for phase in phases), *(times[-1] for times, _ in sampled.values() if len(times))])
    if len(requests):
        end_s = max(end_s, float(np.nanmax(np.r_[requests.intended_ns, requests.end_ns])) * S_PER_NS)
    charts = (
        _rates(requests, end_s),
        _ttft(requests, end_s),
        _tokens(requests, tokens, end_s),
        _gauge("kv", "KV cache in use", "share", "in use", "kv.usage", source, end_s),
        _gauge("server", "Private memory of the server", "bytes", "server", "server.rss_anon", source, end_s),
        _gauge("load", "Private memory of the load generator", "bytes", "load", "load.rss_anon", source, end_s),
    )
    drawn = tuple(replace(chart, x_s=(), lines=()) if chart.absent else chart for chart in charts)
    return Timeline(end_s, drawn, phases, fires(source), canaries(source), compared(source))


def _rates(requests: Requests, end_s: float) -> Chart:
    good = requests.outcome.among(*GOOD)
    x_s, width_s = _windows(requests, end_s)
    ended = np.where(np.isnan(requests.end_ns), requests.intended_ns, requests.end_ns) * S_PER_NS
    lines = (
        ChartLine("offered", "offered", _per_second(requests.intended_ns * S_PER_NS, x_s, width_s)),
        ChartLine("good", "answered", _per_second(ended[good], x_s, width_s)),
        ChartLine("bad", "failed", _per_second(ended[~good], x_s, width_s)),
    )
    note = f"per second, over {width_s:.3g} s"
    return Chart("rate", "Requests", "/s", note, tuple(x_s), lines, _no_requests(requests))


def _ttft(requests: Requests, end_s: float) -> Chart:
    x_s, width_s = _windows(requests, end_s)
    windows: dict[int, list[float]] = defaultdict(list)
    for sent_ns, first_s in zip(requests.sent_ns, ttft_s(requests), strict=True):
        if not np.isnan(first_s):
            windows[min(int(sent_ns * S_PER_NS / width_s), len(x_s) - 1)].append(float(first_s))
    ordered = [sorted(windows[number]) for number in range(len(x_s))]
    lines = tuple(
        ChartLine(key, label, tuple(percentile(values, share) for values in ordered))
        for key, label, share in (("p50", "p50", 0.5), ("p99", "p99", 0.99))
    )
    note = f"of the requests sent in each {width_s:.3g} s; p99 is the largest one where they are under 100"
    absent = _no_requests(requests) or (None if windows else "no request had a first token")
    return Chart("ttft", "Time to first token", "s", note, tuple(x_s), lines, absent, log=True)


def _tokens(requests: Requests, counter: SeriesPoints, end_s: float) -> Chart:
    if len(counter[0]):
        place = grid(0, end_s, period_s(counter[0]))
        lines = (ChartLine("tokens", "generated", _values(min_max(*counter, place))),)
        return Chart("tokens", "Tokens", "tokens/s", "from the server's own counter", tuple(place.x_s.tolist()), lines)
    x_s, width_s = _windows(requests, end_s)
    known = ~np.isnan(requests.end_ns) & ~np.isnan(requests.output_tokens)
    places = np.minimum((requests.end_ns[known] * S_PER_NS / width_s).astype(int), len(x_s) - 1)
    totals = np.bincount(places, weights=requests.output_tokens[known], minlength=len(x_s))
    lines = (ChartLine("tokens", "received", _values(totals / width_s)),)
    note = "from the replies, counted at each request's end: the server has no counter"
    return Chart("tokens", "Tokens", "tokens/s", note, tuple(x_s), lines, _no_requests(requests))


def _gauge(key: str, title: str, unit: str, label: str, name: str, source: RunFiles, end_s: float) -> Chart:
    absent = absence(source, name)
    if absent:
        return Chart(key, title, unit, name, absent=absent)
    t_s, values = samples(source, name)
    place = grid(0, end_s, period_s(t_s))
    line = ChartLine(key, label, _values(min_max(t_s, values, place)))
    return Chart(key, title, unit, name, tuple(place.x_s.tolist()), (line,))


def _windows(requests: Requests, end_s: float) -> tuple[list[float], float]:
    """The centres (s) and the width (s) of the windows in which requests are counted.

    A window has about REQUESTS_PER_WINDOW requests on average; there are 20 to POINTS_MAX / 2 windows.
    """
    wanted_s = end_s * REQUESTS_PER_WINDOW / max(1, len(requests))
    width_s = max(min(wanted_s, end_s / 20), end_s / (POINTS_MAX / 2), 1e-3)
    number = max(1, int(np.ceil(end_s / width_s - 1e-9)))
    return ((np.arange(number) + 0.5) * width_s).tolist(), width_s


def _per_second(times_s: Floats, x_s: list[float], width_s: float) -> tuple[float | None, ...]:
    places = (times_s[~np.isnan(times_s)] / width_s).astype(int)
    counts = np.bincount(np.clip(places, 0, len(x_s) - 1), minlength=len(x_s))
    return _values(counts / width_s)


def _no_requests(requests: Requests) -> str | None:
    return None if len(requests) else "no request was recorded"


def _values(column: Floats) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(value) else float(value) for value in column)
