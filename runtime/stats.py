"""What an engine says of itself after each step."""

from dataclasses import dataclass, field

from runtime.memory.kv.paged import PoolCount


@dataclass(slots=True)
class EngineStats:
    """A snapshot after a step; replaced whole and never changed, so other threads may read it. (Not frozen: one is made
    in every step, and that costs a microsecond for each field.)"""

    running: int = 0
    waiting: int = 0
    swapped: int = 0
    """Of those that wait: with their KV on the host."""
    kv: PoolCount = field(default_factory=lambda: PoolCount(0, 0, 0, 0))
    steps: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    progress_ns: int = 0
    """When a launch last completed or a request last ended."""
    flight_ns: int | None = None
    """When the launch in flight was launched; None when the device is idle."""
    draining: bool = False

    @property
    def open(self) -> int:
        """Requests that have not ended."""
        return self.running + self.waiting
