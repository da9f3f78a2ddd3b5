"""Judge alive: the target survived the run, and the processes that judge it survived too.

It is a FAIL when the runtime raises an exception that it does not expect or stands still, when the server dies without
a fault that may kill it, on an oom_kill, on a forbidden log line, and when a foreign target stops answering after a
good baseline. It is UNKNOWN when our load process dies, our disk is full, or the run is interrupted.
"""

import numpy as np

from assertions.context import Judge, JudgeContext, shown
from assertions.formatting import since_start, size
from assertions.plan_view import PlanView
from assertions.rows import Event
from assertions.verdict import Evidence, Judged, State
from assertions.windows import SLACK_NS

NAME = "alive"
DISK_MIN_BYTES = 16 << 20  # with less, SQLite's next batch may not fit
SERVER = ("server", "target")  # name prefixes of the processes on trial
GONE_AFTER = 10  # consecutive requests at the end of the run without any reply
# Exit codes of a process that ended by itself or by the signal that we sent at the end of the run.
ASKED_TO_STOP = (0, -2, -9, -15, 130, 137, 143)


def decide(context: JudgeContext) -> Judged:
    # An exception comes first: a death that follows is its consequence.
    failures = [*_broken(context), *_deaths(context), *_log_lines(context), *_gone(context)]
    limit = "no exception, no standstill; no death, no oom_kill, no forbidden log line but by our own faults"
    figures = {
        "restarts": float(sum(1 for event in _server(context, "start")) - 1 if any(_server(context, "start")) else 0)
    }
    if failures:
        first = failures[0]
        return Judged(
            NAME,
            State.FAIL,
            first.text,
            limit=limit,
            observed=first.text,
            since_ns=first.t_ns,
            fault=context.blame.at(first.t_ns) if first.t_ns is not None else None,
            owner=first.request or "server",
            evidence=shown(failures),
            figures=figures,
        )
    if blind := _blind(context):
        return Judged(NAME, State.UNKNOWN, blind, limit=limit, because=blind, to_decide="run it again", figures=figures)
    if not context.history.requests.ok.any():
        text = "no request was ever answered well, so nothing shows that the target lived"
        return Judged(NAME, State.UNKNOWN, text, limit=limit, because=text, figures=figures)
    deaths = len(_server(context, "exit"))
    text = f"alive to the end; {deaths} expected exits" if deaths else "alive to the end"
    return Judged(NAME, State.PASS, text, limit=limit, figures=figures)


def _broken(context: JudgeContext) -> list[Evidence]:
    """The exceptions that the runtime did not expect, and its standstills. A fault of ours causes neither: it raises
    only what the runtime must handle, and a wait for a fault is no standstill."""
    words = {"exception": "exception in the runtime: ", "stalled": "standstill: "}
    return [context.evidence_of(event, words[event.kind]) for event in context.history.events if event.kind in words]


def _deaths(context: JudgeContext) -> list[Evidence]:
    found = []
    asked_ns = min((at for at in (_drain_ns(context), _stop_ns(context)) if at is not None), default=None)
    for event in context.history.events:
        if not event.proc.startswith(SERVER) or _ours(context, event):
            continue
        if event.kind == "exit" and event.value in ASKED_TO_STOP and _restarting(context, event.t_ns):
            continue
        if event.kind == "oom_kill":
            found.append(Evidence(event.t_ns, None, f"the kernel killed the server for memory ({event.detail})"))
        if event.kind == "gave_up":
            found.append(Evidence(event.t_ns, None, f"the supervisor gave the server up: {event.detail}"))
        if event.kind == "restart_failed":
            found.append(Evidence(event.t_ns, None, f"the server did not start again: {event.detail}"))
        if event.kind == "fatal":
            found.append(Evidence(event.t_ns, None, f"the server called itself lost: {event.detail}"))
        if event.kind == "exit":
            code = None if event.value is None else int(event.value)
            if asked_ns is not None and event.t_ns >= asked_ns and code in ASKED_TO_STOP:
                continue
            stopped = context.cut_short is not None and "died" not in context.cut_short
            if stopped and code in ASKED_TO_STOP and event.t_ns >= context.history.end_ns - SLACK_NS:
                continue  # the harness was stopped, and stopped its child
            detail = f": {event.detail}" if event.detail else ""
            how = "is gone" if code is None else f"exited with code {code}"
            found.append(Evidence(event.t_ns, None, f"the server {how}{detail}"))
    return found


def _drain_ns(context: JudgeContext) -> int | None:
    """The time (ns) from which processes may stop because we ask them to."""
    last = context.history.phases[-1] if context.history.phases else None
    return last.start_ns if last is not None and last.name == "drain" else None


def _stop_ns(context: JudgeContext) -> int | None:
    """The time (ns) at which the harness began to stop the target, for whatever reason."""
    return next((event.t_ns for event in context.history.events if event.kind == "target_stop"), None)


def _restarting(context: JudgeContext, t_ns: int) -> bool:
    """True between a restart by the harness and the start of the new process."""
    asked = [event.t_ns for event in context.history.events if event.kind == "target_restart" and event.t_ns <= t_ns]
    return bool(asked) and not any(max(asked) < event.t_ns < t_ns for event in _server(context, "start"))


def _ours(context: JudgeContext, event: Event) -> bool:
    """True when the event lies in the window of a fault that may kill the server."""
    return any(w.planned.kills_server and w.holds(event.t_ns) for w in context.windows)


def _log_lines(context: JudgeContext) -> list[Evidence]:
    """Forbidden log lines outside every fault window: an injected error may print its traceback."""
    return [
        Evidence(event.t_ns, None, f"forbidden log line: {event.detail}")
        for event in context.history.events
        if event.kind == "log_hit" and context.window_at(event.t_ns) is None
    ]


def _gone(context: JudgeContext) -> list[Evidence]:
    """Evidence that a target answered in the baseline and answered no more until the end of the load."""
    requests = context.history.requests
    answered = np.flatnonzero(requests.ok)
    if not len(answered) or context.cut_short == "no phase was recorded":
        return []
    early = context.intervals("warmup", "baseline")
    if early and not any((requests.ok & (requests.end_ns <= end_ns)).any() for _, end_ns in early):
        return []  # never a good baseline: `answered` has it
    after = np.flatnonzero(requests.sent & (requests.sent_ns > requests.end_ns[answered].max()))
    silent = [row for row in after.tolist() if np.isnan(requests.http[row]) and requests.outcome[row] != "cancelled"]
    if len(silent) < GONE_AFTER or len(silent) < len(after):
        return []
    t_ns = requests.start_of(silent[0])
    if any(w.planned.kills_server and w.holds(t_ns) for w in context.windows):
        return []
    text = f"gone after a good baseline: none of the last {len(silent)} requests reached it"
    return [Evidence(t_ns, requests.id[silent[0]], text)]


def _blind(context: JudgeContext) -> str | None:
    """The reason why the result is UNKNOWN although no failure was seen; None when there is none."""
    drain_ns = _drain_ns(context)
    for event in context.history.events:
        stopped = drain_ns is not None and event.t_ns >= drain_ns and event.value in ASKED_TO_STOP
        if event.proc == "load" and event.kind in ("oom_kill", "exit") and not stopped and event.value != 0:
            return f"our load process died at {since_start(event.t_ns)} ({event.detail or event.value})"
        if event.kind == "disk_full":
            return f"our own disk was full at {since_start(event.t_ns)}"
    disk = context.history.samples("host.disk_free")
    if disk is not None and len(disk.value) and disk.value.min() < DISK_MIN_BYTES:
        return f"our own disk was nearly full: {size(float(disk.value.min()))} free"
    return f"the run was cut short: {context.cut_short}" if context.cut_short else None


def _server(context: JudgeContext, kind: str) -> list[Event]:
    return [event for event in context.history.events if event.kind == kind and event.proc.startswith(SERVER)]


def judge(plan: PlanView) -> Judge:
    return Judge(NAME, decide)
