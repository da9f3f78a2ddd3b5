"""The server never looks whether a client is still there, and generates every answer to its end.

Models Z107 (vllm#14326: a request that cannot be aborted goes on, whatever the log says).
"""

MODULE = "runtime.server.session"


def plant(session):
    session.Session.leave = lambda self, why: None
