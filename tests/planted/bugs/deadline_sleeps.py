"""Deadlines are watched only when a launch has come back, so one that hangs is waited for.

Models Z113 (vllm#36451: what must see a frozen engine waits for the engine) and Z68 (vllm#45388: nothing ends the
requests of a scheduler that stands still).
"""

MODULE = "runtime.engine.engine"


def plant(engine):
    guard = engine.Engine._guard

    def _guard(self):
        if self._flight is None:
            guard(self)

    engine.Engine._guard = _guard
