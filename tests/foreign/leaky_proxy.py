"""A TCP proxy that never closes its connections to the server behind it: `leaky_proxy.py PORT UPSTREAM_PORT`.

Models a gateway whose pool of upstream connections has no bound and no idle timeout.
"""

import asyncio
import contextlib
import sys

kept: list[asyncio.StreamWriter] = []


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await source.read(65536):
            sink.write(piece)
            await sink.drain()


async def serve(port: int, upstream: int) -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection("127.0.0.1", upstream)
        kept.append(forth)
        ends = [asyncio.create_task(pump(reader, forth)), asyncio.create_task(pump(back, writer))]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for each in ends:
            each.cancel()
        writer.close()

    server = await asyncio.start_server(client, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
