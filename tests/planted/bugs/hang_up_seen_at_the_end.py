"""The server looks whether its client is there when the answer is complete: every hang-up is noted, and none in time.

Models Z107 (vllm#14326, tokens that are generated after an abort) where the handler awaits the engine's whole answer.
"""

MODULE = "runtime.server.session"


def plant(session):
    leave, push = session.Session.leave, session.Session.push

    def _leave(self, why):
        if self.ended is None:
            self._left_early = why
        else:
            leave(self, why)

    def _push(self, output):
        early = getattr(self, "_left_early", None)
        if output.ended is None or early is None:
            push(self, output)
        else:
            self.ended = output.ended
            leave(self, early)

    session.Session.leave, session.Session.push = _leave, _push
