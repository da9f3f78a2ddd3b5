"""The third event of every stream is lost; usage and `[DONE]` say that all is well.

Models the silent half of Z23 (sglang#38352) and Z58 (sglang-jax#1487: tokens vanish, "all requests succeed").
"""

MODULE = "runtime.server.session"


def plant(session):
    take, taken = session.Session._take, {}

    def _take(self, output):
        text, sampled = take(self, output)
        taken[id(self)] = n = (taken.get(id(self), 0) if self.started else 0) + 1
        return ("", ()) if n == 3 else (text, sampled)

    session.Session._take = _take
