"""A client that leaves while its prompt is computed leaves its KV blocks behind.

Models Z103 (vllm#44100, the cleanup helper misses requests that were aborted early) and Z106 (lmdeploy#1788, the
engine stalls after some hundred aborts).
"""

MODULE = "runtime.engine.engine"


def plant(engine):
    cancel = engine.Engine._cancel

    def _cancel(self, request_id, why):
        request = self.requests.get(request_id)
        if request is not None and request.owner.phase == "prefill":
            request.blocks = []  # the cleanup believes that nothing was allocated yet
        cancel(self, request_id, why)

    engine.Engine._cancel = _cancel
