"""The state of an engine after each step, as status endpoints and metrics report it."""

from dataclasses import dataclass, field

from runtime.memory.kv.counts import PoolCount


@dataclass(slots=True)
class EngineStats:
    """A snapshot after a step. It is replaced as a whole and never changed, so other threads may read it. The class is
    not frozen because one is made in every step, and a frozen one costs a microsecond more per field."""

    running: int = 0
    waiting: int = 0
    swapped: int = 0
    """Waiting requests whose KV is on the host."""
    kv: PoolCount = field(default_factory=lambda: PoolCount(0, 0, 0, 0))
    steps: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    progress_ns: int = 0
    """The time (ns) at which a launch last completed or a request last ended."""
    flight_ns: int | None = None
    """The time (ns) at which the launch in flight began; None when the device is idle."""
