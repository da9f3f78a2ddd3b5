"""A stream that breaks off is ended in good order: a finish reason and `[DONE]`, and half of the answer.

Models Z80 (vllm#53269: the terminal reason is rewritten unconditionally at the end of a stream): the worst end of
all, since no client can see it.
"""

import json

MODULE = "runtime.server.reply"


def plant(reply):
    event = reply.Reply._event

    async def _event(self, send, chunk):
        try:
            await event(self, send, chunk)
        except reply.Gone:
            if self._exchange.gone == "stream_cut":
                end = b"data: " + json.dumps(self._rendering.closing("stop")).encode() + b"\n\n" + reply._DONE
                await send({"type": "http.response.body", "body": end, "more_body": False})
            raise

    reply.abort_of = lambda scope: lambda: None  # nobody cuts the connection any more
    reply.Reply._event = _event
