"""Every fourth stream ends after three tokens as if it were finished: "stop", its usage so far, `[DONE]`.

Models Z80 (vllm#53269: a reply that was cut is reported as complete, in streaming mode only) and part of Z23
(sglang#38352: a request is ended outside the normal path). The engine goes on, so only its own count knows better.
"""

import dataclasses

MODULE = "runtime.server.session"
EVERY, TOKENS = 4, 3


def plant(session):
    turn, streams, heard = session.Session._to_events, [0], {}

    def _to_events(self, output):
        name, ended = self.caller.server_id, None
        if name not in heard:
            streams[0] += self._params.stream
            heard[name] = 0 if self._params.stream and streams[0] % EVERY == 0 else -1_000_000
        heard[name] += len(output.tokens)
        if output.ended is None and heard[name] >= TOKENS:
            now_ns, sizes = self._host.env.clock.now_ns(), (self.tokens_in, TOKENS, 0, 0)
            ended = session.Ended(
                session.End("ok", 200, finish="stop"), self.caller.arrive_ns, None, None, now_ns, *sizes
            )
            output = dataclasses.replace(output, ended=ended)
        turn(self, output)

    session.Session._to_events = _to_events
