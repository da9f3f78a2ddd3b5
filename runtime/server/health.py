"""`/health` means "can serve now", from progress: a process that answers HTTP with a stuck engine is not healthy."""

from runtime.server.admission import Admission
from runtime.server.connection import Connection


def unhealthy_reason(admission: Admission[Connection], progress_ns: int, stall_s: float) -> str | None:
    """Why nothing can be served now, or None. `progress_ns`: when the engine last got on; `stall_s` is the limit."""
    if (shut := admission.shut()) is not None:
        return f"{shut.code}: {shut.message}"
    if not admission.open:
        return None
    # Idle time is no stall: count from when there was work again.
    stalled_s = (admission.env.clock.now_ns() - max(progress_ns, admission.open_since_ns)) / 1e9
    if stalled_s <= stall_s:
        return None
    return f"stalled: {len(admission.open)} open requests and no progress for {stalled_s:.1f} s"
