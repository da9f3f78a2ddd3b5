"""A cancel is carried out some steps later: until then the request keeps its row in the batch, and gets tokens.

Models Z107 (vllm#14326: an abort that does not reach the sequences of the running batch).
"""

MODULE = "runtime.engine.engine"
STEPS = 8


def plant(engine):
    cancel, step = engine.Engine._cancel, engine.Engine.step

    def _cancel(self, request_id, why):
        self.__dict__.setdefault("_cancels", {})[request_id] = (self._progress.steps + STEPS, why)

    def _step(self):
        for request_id, (due, why) in list(self.__dict__.get("_cancels", {}).items()):
            if self._progress.steps >= due or request_id not in self.requests:
                del self._cancels[request_id]
                cancel(self, request_id, why)
        step(self)

    engine.Engine._cancel, engine.Engine.step = _cancel, _step
