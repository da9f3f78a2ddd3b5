"""Every fourth stream ends after three tokens as if it were finished: "stop", its usage so far, `[DONE]`.

Models Z80 (vllm#53269: a reply that was cut is reported as complete, in streaming mode only) and part of Z23
(sglang#38352: a request is ended outside the normal path). The engine goes on, so only its own count knows better.
"""

import dataclasses

MODULE = "runtime.server.reply"
EVERY, TOKENS = 4, 3


def plant(reply):
    stream, news, streams = reply.Reply._stream, reply.Reply._news, [0]

    async def _stream(self, send):
        streams[0] += 1
        self._heard = 0 if streams[0] % EVERY == 0 else -1_000_000
        await stream(self, send)

    async def _news(self):
        output = await news(self)
        self._heard += len(output.tokens)
        if output.ended is not None or self._heard < TOKENS:
            return output
        caller, now_ns = self._exchange.caller, self._env.clock.now_ns()
        sizes = (self._exchange.prompt_tokens, TOKENS, 0, 0)
        ended = reply.Ended(reply.End("ok", 200, finish="stop"), caller.arrive_ns, None, None, now_ns, *sizes)
        return dataclasses.replace(output, ended=ended)

    reply.Reply._heard = -1_000_000
    reply.Reply._stream, reply.Reply._news = _stream, _news
