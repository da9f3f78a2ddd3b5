"""The figures of each phase, computed from all data and not from drawn points."""

from dataclasses import dataclass

import numpy as np

from assertions.history import Floats, Mask, Requests
from harness.report.bands import PhaseBand
from harness.report.figures import S_PER_NS, percentile
from harness.report.outcomes import GOOD, ttft_s
from harness.report.series import SeriesPoints


@dataclass(frozen=True)
class PhaseRow:
    """The figures of one phase. The table is also the text alternative of the charts."""

    band: PhaseBand
    offered_per_s: float | None
    ok_per_s: float | None
    bad: int
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    tokens_per_s: float | None
    kv_max: float | None
    server_rss_bytes: float | None


def phase_row(band: PhaseBand, requests: Requests, sampled: dict[str, SeriesPoints], tokens: SeriesPoints) -> PhaseRow:
    span_s = band.end_s - band.start_s
    sent = _within(requests.sent_ns * S_PER_NS, band)
    ended = np.where(np.isnan(requests.end_ns), requests.intended_ns, requests.end_ns) * S_PER_NS
    good, done = requests.outcome.among(*GOOD), _within(ended, band)
    ttft = sorted(float(value) for value in ttft_s(requests)[sent] if not np.isnan(value))
    offered = int(np.count_nonzero(_within(requests.intended_ns * S_PER_NS, band)))
    kv = _in_phase(sampled["kv.usage"], band)
    rss = _in_phase(sampled["server.rss_anon"], band)
    rate = _in_phase(tokens, band)
    return PhaseRow(
        band,
        offered / span_s if span_s > 0 else None,
        int(np.count_nonzero(done & good)) / span_s if span_s > 0 else None,
        int(np.count_nonzero(done & ~good)),
        percentile(ttft, 0.5),
        percentile(ttft, 0.99),
        float(np.mean(rate)) if len(rate) else None,
        float(np.max(kv)) if len(kv) else None,
        float(rss[-1]) if len(rss) else None,
    )


def _within(times_s: Floats, band: PhaseBand) -> Mask:
    return (times_s >= band.start_s) & (times_s < band.end_s)


def _in_phase(samples: SeriesPoints, band: PhaseBand) -> Floats:
    return samples[1][_within(samples[0], band)]
