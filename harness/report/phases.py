"""The figures of each phase, computed from all data and not from drawn points."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from assertions.history import Floats, History, Mask
from harness.report.figures import S_PER_NS, percentile
from harness.report.outcomes import GOOD, ttft_s
from harness.report.series import SeriesPoints


@dataclass(frozen=True)
class PhaseRow:
    """One phase with its figures. The table is also the text alternative of the charts."""

    name: str
    n: int
    start_s: float
    end_s: float  # the end of the history for a phase that never ended
    ended_by: str | None
    offered_per_s: float | None
    ok_per_s: float | None
    bad: int
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    tokens_per_s: float | None
    kv_max: float | None
    server_rss_bytes: float | None


def phase_rows(history: History, sampled: dict[str, SeriesPoints], tokens: SeriesPoints) -> Iterator[PhaseRow]:
    """Yield the phases. `sampled` holds the series kv.usage and server.rss_anon, `tokens` is a rate per second."""
    requests = history.requests
    ended_s = np.where(np.isnan(requests.end_ns), requests.intended_ns, requests.end_ns) * S_PER_NS
    good, first_s = requests.outcome.among(*GOOD), ttft_s(requests)
    for phase in history.phases:
        start_s = phase.start_ns * S_PER_NS
        end_s = (history.end_ns if phase.end_ns is None else phase.end_ns) * S_PER_NS
        span_s = end_s - start_s
        offered = _within(requests.intended_ns * S_PER_NS, start_s, end_s)
        sent, done = _within(requests.sent_ns * S_PER_NS, start_s, end_s), _within(ended_s, start_s, end_s)
        ttft = sorted(first_s[sent & ~np.isnan(first_s)].tolist())
        kv, rss, rate = (
            values[_within(t_s, start_s, end_s)]
            for t_s, values in (sampled["kv.usage"], sampled["server.rss_anon"], tokens)
        )
        yield PhaseRow(
            phase.name,
            phase.n,
            start_s,
            end_s,
            phase.ended_by,
            np.count_nonzero(offered) / span_s if span_s > 0 else None,
            np.count_nonzero(done & good) / span_s if span_s > 0 else None,
            int(np.count_nonzero(done & ~good)),
            percentile(ttft, 0.5),
            percentile(ttft, 0.99),
            float(np.mean(rate)) if len(rate) else None,
            float(np.max(kv)) if len(kv) else None,
            float(rss[-1]) if len(rss) else None,
        )


def _within(times_s: Floats, start_s: float, end_s: float) -> Mask:
    return (times_s >= start_s) & (times_s < end_s)
