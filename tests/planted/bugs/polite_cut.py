"""A stream that breaks off is ended in good order: a finish reason and `[DONE]`, and half of the answer.

Models Z80 (vllm#53269: the terminal reason is rewritten unconditionally at the end of a stream): the worst end of
all, since no client can see it.
"""

MODULE = "runtime.server.response_writer"


def plant(writer):
    write = writer.ResponseWriter._write

    async def _write(self, event, send):
        if not isinstance(event, writer.events.Cut):  # nobody cuts the connection any more
            await write(self, event, send)
            return
        end = b"data: " + writer.json.dumps(self._rendering.closing("stop")).encode() + b"\n\n" + writer._DONE
        await send({"type": "http.response.body", "body": end, "more_body": False})

    writer.ResponseWriter._write = _write
