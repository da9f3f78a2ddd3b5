"""Metrics that are exact in a run: shares, rates, and values that the host measured."""

from collections.abc import Callable

import numpy as np

from assertions import stats
from assertions.context import JudgeContext
from assertions.formatting import amount, between
from assertions.intervals import Interval, length, within, without
from assertions.judges import recovery
from assertions.latency import chosen, where_intervals
from assertions.plan_view import Check
from assertions.rows import DROPPED, UNFINISHED, Mask, Samples
from assertions.windows import NS_PER_S, inside

Measurement = tuple[float | None, str, str | None]


def measure(context: JudgeContext, check: Check, metric: str) -> Measurement:
    """Measure a metric: (value or None without evidence, text that says what was counted, interval or None)."""
    ways: dict[str, Callable[[JudgeContext, Check], Measurement]] = {
        "errors": _errors,
        "errors.outside": lambda context, check: _errors(
            context, Check(check.that, check.load, check.group, "outside")
        ),
        "refused": _refused,
        "dropped": _dropped,
        "throughput.tokens": lambda context, check: _throughput(context, check, tokens=True),
        "throughput.requests": lambda context, check: _throughput(context, check, tokens=False),
        "fallback_rate": lambda context, check: _counted(
            context, check, "server.fallbacks", ("server.steps",), "steps"
        ),
        "failed_allocations": lambda context, check: _counted(
            context, check, "kv.failed", ("kv.allocs", "kv.failed"), "calls for KV blocks"
        ),
        "load.lateness": _lateness,
        "recovery": _recovery,
        "max.rss_anon": lambda context, check: _extreme(context, "server.rss_anon", np.max, 1.0, "server.swap"),
        "max.fds": lambda context, check: _extreme(context, "server.fds", np.max, 1.0),
        "max.sockets": lambda context, check: _extreme(context, "server.sockets", np.max, 1.0),
        "max.file_cache": lambda context, check: _extreme(context, "server.file_cache", np.max, 1.0),
        "max.threads": lambda context, check: _extreme(context, "server.threads", np.max, 1.0),
        "max.fragmentation": lambda context, check: _extreme(context, "kv.internal_fragmentation", np.max, 1.0),
        "host.disk_free": lambda context, check: _extreme(context, "host.disk_free", np.min, 1.0),
        "host.hiccup": lambda context, check: _extreme(context, "host.hiccup_ms", np.max, 1e-3),
    }
    return ways[metric](context, check)


def _errors(context: JudgeContext, check: Check) -> Measurement:
    """The share of requests that ended neither ok nor cancelled as planned.

    Requests that a run left unfinished when it was cut short are not errors.
    """
    requests = context.history.requests
    ended = chosen(context, check) & requests.sent
    if context.cut_short:
        ended &= ~requests.outcome.among(UNFINISHED)
    planned = requests.outcome.among("cancelled") & ~requests.cancel_at.among(None)
    return _share(ended & ~requests.ok & ~planned, ended, "ended badly")


def _refused(context: JudgeContext, check: Check) -> Measurement:
    requests = context.history.requests
    sent = chosen(context, check) & requests.sent
    busy = requests.outcome.among("http_error") & (requests.http == 503)
    return _share(sent & (requests.outcome.among("refused") | busy), sent, "were refused")


def _dropped(context: JudgeContext, check: Check) -> Measurement:
    arrived = chosen(context, check)
    return _share(arrived & context.history.requests.outcome.among(DROPPED), arrived, "were never sent")


def _share(part: Mask, whole: Mask, words: str) -> Measurement:
    count, n = int(np.count_nonzero(part)), int(np.count_nonzero(whole))
    if n == 0:
        return None, "no request to count", None
    return count / n, f"{count} of {n} {words}", between(*stats.share_interval(count, n), "share")


def _throughput(context: JudgeContext, check: Check, tokens: bool) -> Measurement:
    """Requests or tokens that ended ok in the trial, per second of trial. `where` restricts both."""
    requests = context.history.requests
    trial = context.intervals("trial")
    mask = chosen(context, check) & requests.ok & inside(requests.end_ns, trial)
    intervals, out = where_intervals(context, check.where)
    counted = without(trial, context.intervals("quiesce"))
    time_s = length(without(counted, intervals) if out else within(counted, intervals)) / NS_PER_S
    if time_s <= 0:
        return None, "no time of trial to measure", None
    total = float(np.nansum(requests.output_tokens[mask])) if tokens else float(np.count_nonzero(mask))
    return total / time_s, f"{total:g} in {amount(time_s, 'time')}", None


def _counted(context: JudgeContext, check: Check, part: str, whole: tuple[str, ...], what: str) -> Measurement:
    """The growth of the counter `part` in the trial as a share of that of all counters of `whole` together.

    `where` restricts both to samples that lie inside with the one before.
    """
    some, why = context.history.summed_samples(part)
    all_of, missing = zip(*(context.history.summed_samples(each) for each in whole), strict=True)
    if some is None or None in all_of:
        return None, next((each for each in (why, *missing) if each), "no samples"), None
    intervals, out = where_intervals(context, check.where)
    trial = context.intervals("trial")
    counted = without(trial, intervals) if out else within(trial, intervals)
    done = sum(_grown(each, counted) for each in all_of if each is not None)
    found = _grown(some, counted)
    return (found / done, f"{found:g} in {done:g} {what}", None) if done else (None, f"no {what} to count", None)


def _grown(counter: Samples, intervals: list[Interval]) -> float:
    """The growth of a counter between samples of the same interval. A counter that restarts grows from 0."""
    grown = np.diff(counter.value)
    grown = np.where(grown < 0, counter.value[1:], grown)
    both = [inside(t_ns, intervals) for t_ns in (counter.t_ns[:-1], counter.t_ns[1:])]
    return float(grown[both[0] & both[1]].sum())


def _lateness(context: JudgeContext, check: Check) -> Measurement:
    requests = context.history.requests
    late = (requests.sent_ns - requests.intended_ns)[context.measured & requests.sent] / NS_PER_S
    return (
        (float(np.quantile(late, 0.99)), f"{len(late)} requests", None) if len(late) else (None, "nothing sent", None)
    )


def _recovery(context: JudgeContext, check: Check) -> Measurement:
    windows = [w for w in context.windows if check.where in ("outside", "all", w.row.id)]
    mask = context.measured.copy()
    if check.load or check.group:
        requests = context.history.requests
        mask &= requests.load.among(check.load) if check.load else requests.group.among(check.group)
    slowest = recovery.slowest_s(context, windows, mask)
    return slowest, f"{len(windows)} faults" if slowest is not None else "no fault fired and healed", None


def _extreme(
    context: JudgeContext, series: str, extreme: Callable[..., float], scale: float, *added: str
) -> Measurement:
    """The extreme of a series, with the series `added` on top, over the whole run: faults excuse no ceiling."""
    samples, why = context.history.summed_samples(series, *added)
    if samples is None:
        return None, why, None
    return float(extreme(samples.value)) * scale, f"{len(samples.value)} samples", None
