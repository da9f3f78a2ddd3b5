"""Metrics that are plain facts of a run: shares, rates, and what the host measured."""

from collections.abc import Callable

import numpy as np

from assertions import stats
from assertions.brief import Check
from assertions.case import Case
from assertions.judges import recovery
from assertions.latency import chosen, spans_of
from assertions.rows import DROPPED, UNFINISHED, Mask
from assertions.spans import length, within, without
from assertions.windows import NS, inside
from assertions.wording import amount, between

Fact = tuple[float | None, str, str | None]


def read(case: Case, check: Check, metric: str) -> Fact:
    """(value, what it was counted from, interval) of a metric that is a plain fact of the run; None: no evidence."""
    ways: dict[str, Callable[[Case, Check], Fact]] = {
        "errors": _errors,
        "errors.outside": lambda case, check: _errors(case, Check(check.that, check.load, check.group, "outside")),
        "refused": _refused,
        "dropped": _dropped,
        "throughput.tokens": lambda case, check: _throughput(case, check, tokens=True),
        "throughput.requests": lambda case, check: _throughput(case, check, tokens=False),
        "load.lateness": _lateness,
        "recovery": _recovery,
        "host.disk_free": lambda case, check: _extreme(case, "host.disk_free", np.min, 1.0),
        "host.hiccup": lambda case, check: _extreme(case, "host.hiccup_ms", np.max, 1e-3),
    }
    return ways[metric](case, check)


def _errors(case: Case, check: Check) -> Fact:
    """Requests that ended neither ok nor cancelled as planned. What a cut run left unfinished is no error."""
    requests = case.history.requests
    ended = chosen(case, check) & requests.sent
    if case.cut_short:
        ended &= ~requests.outcome.among(UNFINISHED)
    planned = requests.outcome.among("cancelled") & ~requests.cancel_at.among(None)
    return _share(ended & ~requests.ok & ~planned, ended, "ended badly")


def _refused(case: Case, check: Check) -> Fact:
    requests = case.history.requests
    sent = chosen(case, check) & requests.sent
    busy = requests.outcome.among("http_error") & (requests.http == 503)
    return _share(sent & (requests.outcome.among("refused") | busy), sent, "were refused")


def _dropped(case: Case, check: Check) -> Fact:
    arrived = chosen(case, check)
    return _share(arrived & case.history.requests.outcome.among(DROPPED), arrived, "were never sent")


def _share(part: Mask, whole: Mask, words: str) -> Fact:
    count, n = int(np.count_nonzero(part)), int(np.count_nonzero(whole))
    if n == 0:
        return None, "no request to count", None
    return count / n, f"{count} of {n} {words}", between(*stats.share_interval(count, n), "share")


def _throughput(case: Case, check: Check, tokens: bool) -> Fact:
    """What ended ok in the trial, over the time of the trial; `where` cuts both."""
    requests = case.history.requests
    trial = case.spans("trial")
    mask = chosen(case, check) & requests.ok & inside(requests.end_ns, trial)
    spans, out = spans_of(case, check.where)
    counted = without(trial, case.spans("quiesce"))
    time_s = length(without(counted, spans) if out else within(counted, spans)) / NS
    if time_s <= 0:
        return None, "no time of trial to measure", None
    total = float(np.nansum(requests.output_tokens[mask])) if tokens else float(np.count_nonzero(mask))
    return total / time_s, f"{total:g} in {amount(time_s, 'time')}", None


def _lateness(case: Case, check: Check) -> Fact:
    requests = case.history.requests
    late = (requests.sent_ns - requests.intended_ns)[case.measured & requests.sent] / NS
    return (
        (float(np.quantile(late, 0.99)), f"{len(late)} requests", None) if len(late) else (None, "nothing sent", None)
    )


def _recovery(case: Case, check: Check) -> Fact:
    windows = [w for w in case.windows if check.where in ("outside", "all", w.row.id)]
    mask = case.measured.copy()
    if check.load or check.group:
        requests = case.history.requests
        mask &= requests.load.among(check.load) if check.load else requests.group.among(check.group)
    slowest = recovery.slowest_s(case, windows, mask)
    return slowest, f"{len(windows)} faults" if slowest is not None else "no fault fired and healed", None


def _extreme(case: Case, series: str, extreme: Callable[..., float], scale: float) -> Fact:
    samples = case.history.samples(series)
    if samples is None or not len(samples.value):
        why = f": {samples.absent}" if samples is not None and samples.absent else ""
        return None, f"no samples of {series}{why}", None
    return float(extreme(samples.value)) * scale, f"{len(samples.value)} samples", None
