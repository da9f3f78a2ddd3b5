"""`/health` means "can serve now", from progress: a process that answers HTTP with a stuck engine is not healthy."""

from runtime.server.door import Door


def sick(door: Door) -> str | None:
    """Why nothing can be served now, or None."""
    served, now_ns = door.served, door.served.env.clock.now_ns()
    if (shut := door.shut()) is not None:
        return f"{shut.code}: {shut.message}"
    if not door.open:
        return None
    # Idle time is no stall: count from when there was work again.
    since_ns = max(served.status.progress_ns, door.open_since_ns)
    stalled_s = (now_ns - since_ns) / 1e9
    if stalled_s <= door.config.health_stall_s:
        return None
    return f"stalled: {len(door.open)} open requests and no progress for {stalled_s:.1f} s"
