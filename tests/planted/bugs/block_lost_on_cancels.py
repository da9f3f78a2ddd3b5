"""Every 500th cancel of a request that holds KV blocks loses one of them.

Models Z103 (vllm#44100: state leaks when a request is aborted before it is allocated) and Z106 (lmdeploy#1788: an
engine stalls after hundreds of aborted streams): such a race is rare, and each loses little.
"""

MODULE = "runtime.engine.engine"
EVERY = 500


def plant(engine):
    cancel = engine.Engine._cancel
    seen = 0

    def _cancel(self, request_id, why):
        nonlocal seen
        request = self.requests.get(request_id)
        if request is not None:
            seen += 1
            if seen >= EVERY and request.blocks:
                seen = 0
                request.blocks = request.blocks[:-1]
        cancel(self, request_id, why)

    engine.Engine._cancel = _cancel
