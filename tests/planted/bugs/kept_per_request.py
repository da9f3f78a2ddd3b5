"""The server keeps 2 KiB of host memory of every request that has ended.

Models Z130 (ray#35714: a replica grows all day with what it serves): metrics, logs or sessions of ended requests that
nobody removes.
"""

import os

MODULE = "runtime.engine.open_requests"
BYTES = 2048


def plant(open_requests):
    end = open_requests.OpenRequests.end
    kept = []

    def _end(self, request, *args, **kwargs):
        kept.append(os.urandom(BYTES))
        return end(self, request, *args, **kwargs)

    open_requests.OpenRequests.end = _end
