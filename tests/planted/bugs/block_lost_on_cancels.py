"""Every 500th cancel of a request that holds KV blocks loses one of them.

Models a slow leak of the field: an abort that races the end of a step is rare, and each loses little (Z103, Z106).
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
