"""The third event of every stream is lost; usage and `[DONE]` say that all is well.

Models the silent half of Z23 (sglang#38352) and Z58 (sglang-jax#1487: tokens vanish, "all requests succeed").
"""

MODULE = "runtime.server.reply"


def plant(reply):
    take = reply.Reply._take

    def _take(self, output):
        text, sampled = take(self, output)
        self._events = getattr(self, "_events", 0) + 1
        return ("", ()) if self._events == 3 else (text, sampled)

    reply.Reply._take = _take
