"""Each request that has ended makes every later step a little slower.

Models Z131 (ROCm#6347: a process gets slow after hours and stays so), by the commonest cause: a list of what has ended
that is searched from its start and grows for ever.
"""

import time

MODULE = "runtime.engine.open_requests"
PER_REQUEST_S = 60e-6
AT_MOST_S = 0.004


def plant(open_requests):
    end, tell = open_requests.OpenRequests.end, open_requests.OpenRequests.tell
    ended = 0

    def _end(self, request, *args, **kwargs):
        nonlocal ended
        ended += 1
        return end(self, request, *args, **kwargs)

    def _tell(self, request, sampled):
        until = time.perf_counter() + min(AT_MOST_S, ended * PER_REQUEST_S)
        while time.perf_counter() < until:
            pass
        return tell(self, request, sampled)

    open_requests.OpenRequests.end = _end
    open_requests.OpenRequests.tell = _tell
