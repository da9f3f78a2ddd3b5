"""The health check. It looks at progress: a process whose engine is stuck is unhealthy even if it answers HTTP."""

from runtime.server.admission import Admission
from runtime.server.connection import Connection


def unhealthy_reason(admission: Admission[Connection], progress_ns: int, stall_s: float) -> str | None:
    """Why requests can't be served now, or None when they can.

    `progress_ns` is the time of the engine's last progress; `stall_s` is the longest time without any.
    """
    if (closed := admission.closed_reason()) is not None:
        return f"{closed.code}: {closed.message}"
    if not admission.open:
        return None
    # Idle time is no stall: the count starts when a request was open again.
    stalled_s = (admission.env.clock.now_ns() - max(progress_ns, admission.open_since_ns)) / 1e9
    if stalled_s <= stall_s:
        return None
    return f"stalled: {len(admission.open)} open requests and no progress for {stalled_s:.1f} s"
